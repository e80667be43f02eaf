// Views, steps and the log of a run without a mouse.
export default async ({ open, page, press, until, world, expect }) => {
	await open(`/runs/${world.Nightly}`)
	for (const [key, view] of Object.entries({ g: 'graph', k: 'tasks', e: 'events', p: 'params', t: '' })) {
		await press('g', key)
		await until(`g ${key} shows a view`, (view) => (new URLSearchParams(location.search).get('view') ?? '') === view, view)
		await page.waitForLoadState()
	}
	const step = () => page.locator('.panel h2').innerText()
	expect.equal(await step(), 'rollup')
	for (const [key, wanted] of [[']', 'export'], ['[', 'rollup']]) {
		await press(key)
		await until(`${key} leads to ${wanted}`, (wanted) => document.querySelector('.panel h2').textContent === wanted, wanted)
		await page.waitForLoadState()
	}
	await press('l')
	expect.equal(await page.evaluate(() => document.activeElement.id), 'log')
	await open(`/runs/${world.Nightly}?step=extract&q=page`)
	const at = () => page.locator('#log mark').evaluateAll((all) => all.findIndex((m) => m.classList.contains('at')))
	expect.equal(await page.locator('#log mark').count(), 20)
	await press('n')
	expect.equal(await at(), 0)
	await press('n', 'n', 'N')
	expect.equal(await at(), 1)
	await press('g', 'x', 'j')
	expect.equal(await page.locator('[data-row].cur').count(), 1, 'a key after g that means nothing ends it')
}
