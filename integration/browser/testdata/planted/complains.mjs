// The runner must report each of these faults, and none may hide the others.
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
