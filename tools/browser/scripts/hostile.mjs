// Texts that would run, load or break out of something are shown as texts. Their effects would fail any script; an element
// that one of them makes has the attribute data-xss.
export default async ({ open, page, world, expect, noSidewaysScroll }) => {
	const [tag, , title] = world.Texts.map(encodeURIComponent)
	const asked = [`/runs?q=${tag}`, `/runs?dag=${title}`, `/jump?q=${title}`]
	const schedule = `/schedules/hostile/${encodeURIComponent('<img src=x onerror=alert(1) data-xss> #/?')}`
	for (const path of ['/runs', '/runs?q=dag:hostile', '/schedules', schedule, `${schedule}/trigger`, `${schedule}/backfill`, '/dags', '/dags/hostile', '/dags/hostile/versions/1', '/dags/hostile/enqueue', '/approvals', '/queues', '/queues/default', '/workers', ...asked]) {
		await open(path, 200, ...(asked.includes(path) ? [400] : []))
		expect.equal(await page.locator('[data-xss]').count(), 0, `elements made by texts on ${path}`)
		await noSidewaysScroll(path)
	}
	await open('/runs?q=dag:hostile')
	expect.ok((await page.locator('body').innerText()).includes('<img src=x onerror='), 'the text is shown')
}
