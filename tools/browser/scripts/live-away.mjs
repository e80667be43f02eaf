// A page shows that its server is down, keeps its content, and goes on without a reload when the server is back.
import { appendFileSync } from 'node:fs'

export default async ({ open, page, world, until, control, allow, expect }) => {
	const { Run: run, Pipe: pipe } = world.Feeds[1]
	allow(/^console: Failed to load resource: net::ERR_/)
	await open(`/runs/${run}/steps/copy`)
	await until('the stream is open', () => document.querySelector('#live-state').textContent === 'live')
	await control('down')
	await until('the band is there', () => /^Last look \d\d:\d\d:\d\d, trying again\.$/.test(document.querySelector('#band:not([hidden])')?.textContent))
	expect.ok((await page.locator('#log').innerText()).includes('reading'), 'the log stays')
	await control('up')
	await until('the band has gone', () => document.querySelector('#band').hidden)
	appendFileSync(pipe, 'after it\n')
	await until('the log goes on', () => document.querySelector('#log li:last-child')?.textContent.includes('after it'))
}
