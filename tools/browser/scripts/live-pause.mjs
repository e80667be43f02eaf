// Pause keeps the page unchanged and its stream closed. A hidden tab does the same.
import { appendFileSync } from 'node:fs'

export default async ({ open, page, clicks, world, until, eventually, control, expect }) => {
	const { Run: run, Pipe: pipe } = world.Feeds[1]
	const streams = (n) => eventually(`${n} streams are open`, async () => await control('streams') === String(n))
	const last = () => page.locator('#log li').last().innerText()
	const hide = (hidden) => page.evaluate((hidden) => {
		Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true })
		document.dispatchEvent(new Event('visibilitychange'))
	}, hidden)
	const click = clicks(2)
	await open(`/runs/${run}/steps/copy/log`)
	await streams(1)
	await click('#pause')
	await streams(0)
	expect.match(await page.locator('#live-state').innerText(), /^as of \d\d:\d\d:\d\d$/)
	const before = await last()
	appendFileSync(pipe, 'while it paused\n')
	await hide(true)
	await hide(false)
	await streams(0)
	expect.equal(await last(), before)
	await click('#pause')
	await until('what was missed', () => document.querySelector('#log li:last-child')?.textContent.includes('while it paused'))
	await streams(1)
	await hide(true)
	await streams(0)
	appendFileSync(pipe, 'while it was hidden\n')
	await hide(false)
	await until('what was missed again', () => document.querySelector('#log li:last-child')?.textContent.includes('while it was hidden'))
	expect.equal(await page.locator('#live-state').innerText(), 'live')
}
