// On a phone the page of a run is complete, nothing scrolls sideways, and a tap on a step shows that step first.
export const options = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }

export default async ({ open, page, world, noSidewaysScroll, expect }) => {
	const run = `/runs/${world.Nightly}`
	for (const path of [run, `${run}?view=graph`, `${run}?view=tasks`, `${run}?view=events`, `${run}?view=params`, `${run}?step=export`,
		`${run}/steps/rollup`, `${run}/steps/rollup/log`, `/runs/${world.Hostile}`, `/runs/${world.Hostile}/log`, `/runs/${world.Waiting}/compare/${world.Canceled}`]) {
		await open(path)
		await noSidewaysScroll(path)
	}
	await open(run)
	await page.locator('[data-row] a', { hasText: 'extract' }).tap()
	await page.waitForURL(/step=extract/)
	const top = (selector) => page.locator(selector).evaluate((e) => e.getBoundingClientRect().top)
	expect.ok(await top('#panel') < await top('.main-view'), 'the panel that was asked for is above the timeline')
}
