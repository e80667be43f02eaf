// Draws a run with a step that failed, in both schemes, for the README.
import { join } from 'node:path'

export default async ({ open, page, world }) => {
	await page.setViewportSize({ width: 1280, height: 800 })
	for (const [colorScheme, name] of [['light', 'run-page.png'], ['dark', 'run-page-dark.png']]) {
		await page.emulateMedia({ colorScheme })
		await open(`/runs/${world.Nightly}`)
		await page.screenshot({ path: join(world.Pictures, name) })
	}
}
