// On paper there is what the page says, and nothing to click on.
export default async ({ open, page, shot, expect }) => {
	await open('/runs')
	await page.emulateMedia({ media: 'print' })
	await shot('print')
	expect.equal(await page.locator('header.top').isVisible(), false, 'the bar is not printed')
	expect.equal(await page.locator('[data-row]').first().isVisible(), true, 'rows are')
}
