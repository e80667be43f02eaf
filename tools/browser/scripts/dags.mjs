// From the list of DAGs to the page of one DAG: its newest runs, the definition of a step by its card, and a version's source.
export default async ({ open, axe, page, until, noSidewaysScroll }) => {
	await open('/dags')
	await axe()
	await noSidewaysScroll('/dags')
	await page.getByRole('link', { name: 'nightly-orders' }).click()
	await until('the page of the DAG', () => document.querySelector('h1').innerText === 'nightly-orders')
	await axe()
	await noSidewaysScroll('the page of a DAG')
	await page.locator('.graph a', { hasText: 'rollup' }).click()
	await until('the definition of the step', () => document.querySelector('pre.code').innerText.includes('rollup'))
	await axe()
	await page.locator('[data-open]').first().click()
	await until('its source', () => document.querySelector('pre.code').innerText.includes('name: nightly-orders'))
	await axe()
	await open('/dags/nightly-orders/diff/1..1')
	await axe()
}
