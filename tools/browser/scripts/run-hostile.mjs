// Texts that would run, load or break out of something appear complete, as texts, on every page of the run that contains them.
export default async ({ open, page, world, expect, noSidewaysScroll }) => {
	const run = `/runs/${world.Hostile}`
	const item = `item=${encodeURIComponent(world.Texts[0])}`
	const pages = ['', '?view=graph', '?view=tasks', '?view=events', '?view=params', '?step=tell', `?step=tell&${item}`, `?step=tell&${item}&tab=outputs`,
		'?step=fail', '?step=fail&tab=attempts', '?step=fail&tab=definition', '?step=ask&tab=outputs', '?step=refuse', '/steps/all', '/steps/all/log', '/steps/fail/log', '/log',
		`/steps/tell/log?${item}`, `/steps/all/log?q=${encodeURIComponent('<')}`, `?view=tasks&find=${encodeURIComponent(world.Texts[5])}`]
	for (const path of pages) {
		await open(run + path)
		expect.equal(await page.locator('[data-xss]').count(), 0, `elements made by texts on ${path}`)
		await noSidewaysScroll(path)
		const links = await page.locator('a').evaluateAll((all) => all.filter((a) => a.rel !== 'noopener noreferrer nofollow').map((a) => new URL(a.getAttribute('href'), location).origin))
		expect.deepEqual([...new Set(links)], [new URL(page.url()).origin], `where links of ${path} lead`)
	}
	const whole = world.Texts.filter((text) => !/[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]/.test(text)) // the page names the characters of the others
	await open(`${run}?view=params`)
	const values = await page.locator('.v-string').allTextContents()
	for (const text of whole) expect.ok(values.includes(text), `${text} among params`)
	await open(`${run}?view=tasks`)
	const names = await page.locator('.items a').allTextContents()
	for (const text of whole) expect.ok(names.includes('tell/' + text) || text.includes('\t'), `${text} among tasks`)
	for (const text of whole.filter((_, i) => i % 12 === 0)) {
		await open(`${run}/steps/tell?item=${encodeURIComponent(text)}`)
		expect.equal(await page.locator('#log .text').first().textContent(), text, 'a text in a log')
	}
}
