// When another worker takes a run over, the page that follows the log shows the next attempt, and goes on with it.
import { appendFileSync } from 'node:fs'

export default async ({ open, page, world, until, control, expect }) => {
	const { Run: run, Pipe: pipe } = world.Feeds[2]
	await open(`/runs/${run}`)
	appendFileSync(pipe, 'before it\n')
	await until('the line is there', () => document.querySelector('#log li:last-child')?.textContent.includes('before it'))
	await control('swap')
	await until('the second attempt is shown', () => document.querySelector('#log').getAttribute('aria-label') === 'Log of copy, attempt 2')
	await until('its lines are there', () => document.querySelector('#log li:last-child')?.textContent.includes('reading'))
	expect.equal(await page.locator('#log li', { hasText: 'before it' }).count(), 0)
	appendFileSync(pipe, 'after it\n')
	await until('it goes on', () => document.querySelector('#log li:last-child')?.textContent.includes('after it'))
	expect.deepEqual(await page.locator('#panel-head .seg a').allInnerTexts(), ['1', '2'])
}
