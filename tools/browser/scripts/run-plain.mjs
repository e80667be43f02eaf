// Without JavaScript views, panel, log and search are links and forms.
export const options = { javaScriptEnabled: false }

export default async ({ open, page, world, expect }) => {
	const go = async (link, query) => {
		await link.click()
		await page.waitForURL(query)
	}
	await open(`/runs/${world.Nightly}`)
	for (const view of ['graph', 'tasks', 'events', 'params']) await go(page.locator(`#tabs a[data-view=${view}]`), new RegExp(`view=${view}`))
	await go(page.locator('#tabs a[data-view=timeline]'), /\/runs\/\d+(\?step=rollup)?$/)
	await go(page.locator('[data-row] a', { hasText: 'extract' }), /step=extract/)
	expect.equal(await page.locator('#log li').count(), 21)
	expect.equal(await page.locator('.scripted').first().isVisible(), false, 'no button that does nothing')
	await page.locator('#find').fill('page 1\\d')
	await page.locator('#find').press('Enter')
	await page.waitForURL(/q=page/)
	expect.equal(await page.locator('#log mark').count(), 10)
	await go(page.locator('#L12 > a'), /line=12/)
	expect.equal(await page.locator('#log li.here').count(), 1)
	await go(page.locator('.panel a', { hasText: 'Open' }), /steps\/extract\/log/)
	await go(page.locator('.seg a', { hasText: 'stderr' }), /stream=stderr/)
	expect.ok((await page.locator('#log').innerText()).includes('The task wrote nothing'))
	await open(`/runs/${world.Nightly}?view=tasks`)
	await go(page.locator('.main-view .chip.failed'), /state=failed/)
	expect.equal(await page.locator('.items [data-row]').count(), 1)
}
