// Lines of a log have addresses, can be found and are marked, and have their original text.
export default async ({ open, page, world, until, expect }) => {
	const log = `/runs/${world.Nightly}/steps/extract/log`
	const marked = () => page.locator('#log li.here').evaluateAll((all) => all.map((li) => li.id))
	await open(log)
	expect.equal(await page.locator('#log .a32').innerText(), 'OK', 'a colour of the terminal is a class')
	await page.locator('#L5 > a').click()
	expect.deepEqual(await marked(), ['L5'])
	expect.match(page.url(), /[?&]line=5#L5$/)
	await page.locator('#L8 > a').click({ modifiers: ['Shift'] })
	expect.deepEqual(await marked(), ['L5', 'L6', 'L7', 'L8'])
	expect.match(page.url(), /[?&]line=5-8#L8$/)
	await page.reload()
	expect.deepEqual(await marked(), ['L5', 'L6', 'L7', 'L8'], 'the address marks them again')
	await page.locator('#find').fill('PAGE 7|rows')
	await page.locator('#find').press('Enter')
	await until('nothing has that', () => location.search.includes('q=') && document.querySelectorAll('#log li').length === 1)
	await page.locator('#find').fill('page 7|rows')
	await page.locator('#find').press('Enter')
	await until('both lines are found', () => document.querySelectorAll('#log li').length === 2)
	expect.deepEqual(await page.locator('#log mark').allInnerTexts(), ['page 7', 'rows'])
	await open(`${log}?q=%28`)
	expect.match(await page.getByRole('alert').innerText(), /no regular expression/)
	await open(`/runs/${world.Nightly}/steps/rollup/log`)
	await page.locator('.seg[aria-label=Streams] a', { hasText: 'stderr' }).click()
	await until('standard error alone', () => location.search.includes('stream=stderr') && document.querySelectorAll('#log li').length === 4)
	await open(log)
	const [download] = await Promise.all([page.waitForEvent('download'), page.locator('a', { hasText: 'Raw' }).click()])
	let bytes = ''
	for await (const part of await download.createReadStream()) bytes += part
	expect.equal(bytes, Array.from({ length: 20 }, (_, i) => `page ${i + 1} of 20\n`).join('') + '\x1b[32mOK\x1b[0m 18,233 rows\n')
}
