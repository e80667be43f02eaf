// A log grows in the page, follows its end until the reader goes up, and the page ends when the run does.
import { appendFileSync } from 'node:fs'

export default async ({ open, page, press, world, until, eventually, control, expect }) => {
	const { Run: run, Pipe: pipe } = world.Feeds[0]
	const say = (line) => appendFileSync(pipe, line + '\n')
	const shows = (line) => until(`${line} is in the page`, (line) => document.querySelector('#log li:last-child')?.textContent.includes(line), line)
	const fromEnd = () => page.locator('#log').evaluate((log) => Math.round(log.scrollHeight - log.scrollTop - log.clientHeight))
	await open(`/runs/${run}`)
	await page.evaluate(() => { globalThis.sameDocument = true })
	await shows('reading')
	say('first')
	await shows('first')
	expect.ok(await fromEnd() < 5, 'the end is in sight')
	await page.locator('#log').evaluate((log) => new Promise((done) => {
		log.addEventListener('scroll', done, { once: true })
		log.scrollTop = 100
	}))
	say('second')
	await shows('second')
	expect.equal(await page.locator('#log').evaluate((log) => log.scrollTop), 100, 'what is read stays where it is')
	await press('f')
	expect.ok(await fromEnd() < 5, 'f goes to the end')
	say('<i data-xss>third</i>')
	await shows('third')
	expect.equal(await page.locator('[data-xss]').count(), 0)
	expect.ok(await fromEnd() < 5, 'and follows it')
	expect.match(await page.locator('#log-range').innerText(), /of 124$/)
	say('end')
	await until('the pill of the run', () => document.querySelector('#head .pill').textContent.includes('succeeded'))
	expect.match(await page.title(), /succeeded/)
	await until('the light says so', () => document.querySelector('#live-state').textContent === 'ended')
	expect.equal(await page.evaluate(() => globalThis.sameDocument), true, 'the page was not loaded again')
	await eventually('the stream is closed', async () => await control('streams') === '0')
}
