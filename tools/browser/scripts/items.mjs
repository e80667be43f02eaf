// Of 1,000 items the list shows a window, finds one by its name, and each has a panel.
export default async ({ open, page, world, until, press, clicks, expect }) => {
	await open(`/runs/${world.Many}?view=tasks`)
	expect.equal(await page.locator('.main-view [data-row]').count(), 100)
	await clicks(1)('.foot a[rel=next] >> nth=0')
	await until('the next window', () => location.search.includes('after='))
	await open(`/runs/${world.Many}?view=tasks`)
	await page.locator('input[name=find]').fill('2026-09-2')
	await press('Enter')
	await until('items by name', () => location.search.includes('find=') && document.querySelectorAll('.main-view [data-row]').length === 7)
	await clicks(1)(page.locator('.main-view [data-row] a', { hasText: '2026-09-23' }))
	await until('the panel of the item', () => /^day\s*\/\s*2026-09-23$/.test(document.querySelector('.panel h2').textContent.trim()))
	await open(`/runs/${world.Many}?step=day`)
	expect.match(await page.locator('.panel .foot').innerText(), /^\d+ of 1,000 items/)
	expect.equal(await page.locator('.time [data-row]').count(), 1, 'on the timeline they are one row')
}
