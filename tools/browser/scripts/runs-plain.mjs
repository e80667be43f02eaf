// Without JavaScript everything works except keys and live parts.
export const options = { javaScriptEnabled: false }

export default async ({ open, page, world, expect, base }) => {
	await open('/runs')
	expect.ok(await page.locator('[data-row]').count() >= Object.keys(world.States).length)
	expect.equal(await page.locator('.scripted').first().isVisible(), false, 'no button that does nothing')
	await page.locator('.chip.queued').click()
	await page.waitForURL(/state=queued$/)
	expect.equal(await page.locator('[data-row]').count(), 1)
	await open('/runs')
	await page.locator('.filters input[type=search]').fill('dag:order-paid')
	await page.locator('.filters button').click()
	await page.waitForURL(/order-paid/)
	expect.deepEqual(new Set(await page.locator('[data-row] a.dag').allInnerTexts()), new Set(['order-paid']))
	await page.locator('nav a', { hasText: 'Approvals' }).click()
	await page.waitForURL(base + '/approvals')
	expect.ok((await page.locator('body').innerText()).includes(`oarlock approve ${world.Nightly} confirm`))
}
