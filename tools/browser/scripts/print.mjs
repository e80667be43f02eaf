// A printed page has the text of the page, and no buttons.
export default async ({ open, page, shot, expect }) => {
	await open('/runs')
	await page.emulateMedia({ media: 'print' })
	await shot('print')
	expect.equal(await page.locator('header.top').isVisible(), false, 'the bar is not printed')
	expect.equal(await page.locator('[data-row]').first().isVisible(), true, 'rows are')
}
