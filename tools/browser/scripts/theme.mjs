// The colours are chosen by a link, kept, and in place before the first paint.
export default async ({ open, page, clicks, until, expect }) => {
	await page.emulateMedia({ colorScheme: 'light' })
	await open('/runs')
	const before = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
	await clicks(1)('.themes >> text=Dark')
	await until('the dark page', () => document.documentElement.dataset.theme === 'dark')
	const response = await open('/approvals')
	expect.ok((await response.text()).includes('data-theme="dark"'), 'the server knows it')
	expect.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), before)
}
