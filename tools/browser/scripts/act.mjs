// A run is steered from its page. An approval is given with the inputs that it asks for, and the page shows the outcome without a
// reload. A run that ended is retried after a page that lists the steps to run again.
export default async ({ open, axe, page, until, world, expect }) => {
	const run = world.Decided
	await open(`/runs/${run}?step=approve`)
	await axe()
	await page.getByRole('textbox', { name: 'comment' }).fill('<i data-xss>as agreed')
	await page.getByRole('button', { name: 'Approve', exact: true }).click()
	await until('the page says what became of it', () => /approve: approve (applied|accepted)/.test(document.querySelector('#asked').innerText))
	await until('the run goes on, and ends', () => document.querySelector('#head .pill').innerText.includes('succeeded'))
	expect.equal(await page.locator('[data-xss]').count(), 0)
	expect.equal(await page.getByRole('link', { name: 'Retry…', exact: true }).count(), 0)
	await page.getByRole('link', { name: 'Retry from here…' }).first().click()
	await page.getByRole('link', { name: 'Everything' }).click()
	await axe()
	expect.match(await page.locator('main').innerText(), /These steps run again: .*approve/)
	await page.getByRole('button', { name: 'Retry', exact: true }).click()
	await until('it waits once more', () => document.querySelector('#head .pill').innerText.includes('waiting'))
	await page.getByRole('link', { name: 'Cancel…' }).first().click()
	await until('the page between', () => document.querySelector('h1').innerText.startsWith('Cancel'))
	await axe()
	await page.getByRole('button', { name: 'Cancel it' }).click()
	await until('it is canceled', () => document.querySelector('#head .pill').innerText.includes('canceled'))
}
