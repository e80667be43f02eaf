// Without a session a page leads to the sign-in form, and from there back to the page, by keys alone. Each page shows the user that is
// signed in, and signing out leads back to the form.
export default async ({ open, axe, page, until, world, expect }) => {
	await open('/signed/runs?state=failed')
	expect.match(page.url(), /\/signed\/login\?to=/)
	await axe()
	await page.keyboard.type(world.Person)
	await page.keyboard.press('Tab')
	await page.keyboard.type(world.Word)
	await page.keyboard.press('Enter')
	await until('the page that was asked for', () => document.querySelector('h1').innerText.startsWith('Runs'))
	expect.match(page.url(), /\/signed\/runs\?state=failed$/)
	expect.match(await page.locator('header').innerText(), /operator/)
	await axe()
	await page.getByRole('button', { name: 'Sign out' }).click()
	await until('the form again', () => document.querySelector('h1').innerText === 'Sign in')
	await page.goBack()
	await until('no page of before', () => document.querySelector('h1').innerText === 'Sign in')
}
