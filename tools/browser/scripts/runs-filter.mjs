// One click shows the failed runs, and typing shows the runs of one DAG. The back button leads back.
export default async ({ open, clicks, page, until, press, tabTo, world, expect }) => {
	await open('/runs')
	const all = await page.locator('[data-row]').count()
	await clicks(1)('.chip.failed')
	await until('only failed runs are left', () => location.search.includes('state=failed') &&
		[...document.querySelectorAll('[data-row] .pill')].every((e) => e.textContent.includes('failed')))
	expect.equal(await page.locator('[data-row]').count(), 1)
	await page.goBack()
	await until('all are back', (n) => document.querySelectorAll('[data-row]').length === n, all)
	await tabTo('.filters input[type=search]')
	await page.keyboard.type('dag:deploy-web')
	await press('Enter')
	await until('only its runs are left', () => location.search.includes('deploy-web') &&
		[...document.querySelectorAll('[data-row] a.dag')].every((e) => e.textContent === 'deploy-web'))
	expect.equal(await page.locator('[data-row]').count(), 4)
	await open('/runs?q=state:nonsense', 400)
	expect.equal(await page.getByRole('alert').count(), 1, 'a filter that means nothing is told')
}
