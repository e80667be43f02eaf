// Each of these is to be reported, and none keeps the others from being so.
export default async ({ open, axe, page }) => {
	await open('/fails', 500)
	await open('/faulty')
	await axe()
	await page.evaluate(() => console.error('oh no'))
	await page.evaluate(() => alert('hello'))
	await page.evaluate(() => queueMicrotask(() => { throw Error('oops') }))
	await page.evaluate(() => new Promise((done) => {
		const other = open('/sound')
		other.onload = () => done(other.console.error('said aside'))
	}))
}
