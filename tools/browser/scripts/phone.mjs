// On a phone no page scrolls sideways, whatever it shows, and the way to a run is a tap on its row's link.
export const options = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }

export default async ({ open, page, noSidewaysScroll, until }) => {
	for (const path of ['/runs', '/dags', '/schedules', '/approvals', '/queues', '/queues/default', '/workers']) {
		await open(path)
		await noSidewaysScroll(path)
	}
	await open('/runs')
	await page.locator('[data-row] a[data-open]').first().tap()
	await until('the run is opened', () => /\/runs\/\d+$/.test(location.pathname))
}
