// The pages of queues and workers are accessible, and a button pauses and resumes a queue.
export default async ({ open, axe, page, expect }) => {
	for (const path of ['/workers', '/queues', '/queues/default']) {
		await open(path)
		await axe()
	}
	await page.locator('main button', { hasText: 'Pause' }).click()
	await page.locator('main .pill', { hasText: 'paused' }).waitFor()
	await page.locator('main button', { hasText: 'Resume' }).click()
	await page.locator('main button', { hasText: 'Pause' }).waitFor()
	expect.equal(await page.locator('main .head .pill').count(), 0, 'the queue is open again')
}
