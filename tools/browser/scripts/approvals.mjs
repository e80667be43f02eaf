// The page of an approval shows the question, and what to type.
export default async ({ open, axe, page, world, expect }) => {
	await open('/approvals')
	await axe()
	const asked = page.locator('[data-row]', { hasText: `#${world.Nightly}` })
	const text = await asked.innerText()
	for (const wanted of ['Publish the figures of 2026-11-22?', 'ticket, required', `oarlock approve ${world.Nightly} confirm`]) {
		expect.ok(text.includes(wanted), `${wanted} in ${text}`)
	}
}
