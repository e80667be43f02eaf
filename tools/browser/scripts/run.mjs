// A run's page is one click from the list, shows the error text of the step that failed, and is accessible in each of its
// views.
export default async ({ open, axe, each, noSidewaysScroll, clicks, page, world, until, expect }) => {
	await open('/runs')
	await clicks(1)(`#run-${world.Nightly} a[data-open]`)
	await until('the run is opened', (id) => location.pathname.endsWith(`/runs/${id}`), world.Nightly)
	expect.match(await page.title(), /^nightly-orders #\d+ running/)
	const box = await page.locator('section.why').innerText()
	for (const wanted of ['rollup failed after 3 attempts', 'relation "daily_rollup" does not exist', 'did you apply migration 0042', `oarlock logs ${world.Nightly} rollup`]) {
		expect.ok(box.includes(wanted), `${wanted} in ${box}`)
	}
	expect.equal(await page.locator('.panel h2').innerText(), 'rollup', 'the panel opens with what failed')
	await axe()
	const views = ['view=graph&step=load', 'view=tasks&state=failed&state=waiting&step=load&item=p03&tab=outputs', 'view=events&step=confirm',
		'view=params&step=rollup&tab=attempts', 'step=rollup&tab=definition']
	for (const query of world.All ? views : views.slice(1, 2)) {
		await open(`/runs/${world.Nightly}?${query}`)
		await axe('.body')
		expect.ok((await page.locator('section.why').innerText()).includes('daily_rollup'), `what rollup wrote, whatever the panel shows: ${query}`)
	}
	await open(`/runs/${world.Nightly}/steps/extract/log?line=3-4`)
	await axe('main')
	await open(`/runs/${world.Nightly}/steps/rollup`)
	await each(noSidewaysScroll)
}
