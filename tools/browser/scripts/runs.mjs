// The list of runs is accessible. It shows the state of each run, the reason, and a link.
export default async ({ open, axe, page, world, base, expect }) => {
	await open('/runs')
	await axe()
	for (const [state, id] of Object.entries(world.States)) {
		const row = page.locator('[data-row]', { has: page.locator(`a[data-open][href="${new URL(base).pathname}/runs/${id}"]`) })
		expect.equal(await row.count(), 1, `rows of run ${id}`)
		expect.ok((await row.locator('.pill').innerText()).includes(state), `run ${id} is ${state}`)
	}
	expect.equal(await page.locator('time[datetime]').first().evaluate((e) => /^\d\d:\d\d:\d\d$|^\d{4}-/.test(e.textContent)), true, 'times are local')
	expect.ok((await page.locator('#zone').innerText()).includes('Berlin'), 'the zone is named')
}
