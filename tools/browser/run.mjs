// Runs scripts against pages in the system's own Chromium, one after the other:
//   node run.mjs --base URL [--world JSON] [--json] [NAME…]
// A script is scripts/NAME.mjs. Its default export gets the helpers below. A script with `export const options` gets a context of
// its own with these options. The others share a page, with empty cookies and storage when a script begins.
// A script fails on what it asserts, and on any page error, console error, violation of the CSP, dialog, request that leaves
// the base, and on HTML that html-validate refuses. The output is one line a script; --json prints these as objects.
//
// Environment: OARLOCK_TEST_BROWSER is the program, OARLOCK_TEST_SHOTS a folder for pictures. What package.json pins is in
// .cache/browser, where tools/ensure-browser installs it. Exit status: 0 all passed, 1 some failed, 2 wrong usage.
import assert from 'node:assert/strict'
import { accessSync, constants, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, loadavg } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const { values: flags, positionals: names } = parseArgs({
	allowPositionals: true,
	options: { base: { type: 'string' }, world: { type: 'string', default: '{}' }, scripts: { type: 'string' }, json: { type: 'boolean' } },
})
if (!flags.base) {
	console.error('usage: node run.mjs --base URL [--world JSON] [--scripts FOLDER] [--json] [NAME…]')
	process.exit(2)
}

const modules = fileURLToPath(new URL('../../.cache/browser/', import.meta.url))
const require = createRequire(modules)
const { chromium } = require('playwright-core')
const { HtmlValidate, StaticConfigLoader } = require('html-validate')
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')

const patience = () => 5000 * Math.max(1, loadavg()[0] / availableParallelism()) // ms for one step of a script: more on a busy machine
const viewport = { width: 1560, height: 900 }
const lookAgain = 50 // ms
const schemes = ['light', 'dark']
const widths = [1560, 390]
const axeRules = { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }

const validator = new HtmlValidate(new StaticConfigLoader({
	root: true,
	extends: ['html-validate:recommended'],
	rules: {
		'doctype-style': 'off', // both cases are HTML
		'no-trailing-whitespace': 'off', // templates leave it, and users never see it
		'no-implicit-button-type': 'off', // in a form, a button without a type submits it, which is meant
		'form-dup-name': 'off', // a list is narrowed to several states by fields of one name
		'long-title': 'off', // it contains names that users chose
		'wcag/h32': 'off', // a form of one search field is sent by Enter, and by the key that phones show for it
	},
}))

function findChromium() {
	if (process.env.OARLOCK_TEST_BROWSER) return process.env.OARLOCK_TEST_BROWSER
	for (const name of ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome']) {
		for (const folder of (process.env.PATH ?? '').split(delimiter)) {
			const path = join(folder, name)
			try {
				accessSync(path, constants.X_OK)
				return path
			} catch { /* the next one */ }
		}
	}
	throw new Error('no Chromium: on Debian, apt-get install chromium')
}

// Bench is the page of one script, with the helpers for it and the faults that the page showed.
class Bench {
	base = flags.base.replace(/\/$/, '')
	world = JSON.parse(flags.world)
	expect = assert
	wrong = []
	allowed = []

	constructor(context, page, name) {
		Object.assign(this, { context, page, name, patience: patience() })
		for (const [key, value] of Object.entries(Object.getOwnPropertyDescriptors(Bench.prototype))) {
			if (key !== 'constructor') this[key] = value.value.bind(this) // so that scripts may destructure the helpers
		}
		page.setDefaultTimeout(this.patience)
	}

	complain(what) {
		if (!this.allowed.some((pattern) => pattern.test(what))) this.wrong.push(what)
	}

	// allow lists the complaints that this script causes on purpose.
	allow(pattern) { this.allowed.push(pattern) }

	// open goes to a path below the base, expects one of these answers (200), and checks the HTML that the server sent, once a path.
	async open(path, ...statuses) {
		if (statuses.length === 0) statuses.push(200)
		for (const status of statuses.filter((s) => s >= 400)) this.allow(new RegExp(`^console: Failed to load resource.* ${status} `))
		const response = await this.page.goto(this.base + path, { waitUntil: 'load' })
		assert.ok(statuses.includes(response.status()), `the status of ${path} is ${response.status()}`)
		assert.ok(await this.page.locator('h1').first().isVisible(), `the heading of ${path} does not show`) // axe finds no fault in a hidden page
		if (judged.has(path)) return response
		judged.add(path)
		const report = await validator.validateString(await response.text(), path)
		for (const m of report.results.flatMap((r) => r.messages)) {
			this.wrong.push(`${path}:${m.line}:${m.column}: ${m.message} (${m.ruleId})`)
		}
		return response
	}

	// each calls look in both schemes and at both widths.
	async each(look) {
		const before = this.page.viewportSize()
		for (const width of widths) {
			await this.page.setViewportSize({ width, height: 900 })
			for (const colorScheme of schemes) {
				await this.page.emulateMedia({ colorScheme })
				await look(`${width} px, ${colorScheme}`, width, colorScheme)
			}
		}
		await this.page.emulateMedia({ colorScheme: null })
		await this.page.setViewportSize(before)
	}

	// axe expects a page, or the part of it that selector finds, to be accessible in both schemes and at both widths, without sideways
	// scroll. Contrast is the most expensive rule, so it is checked once a scheme, on the wide screen, which shows everything. For a
	// part, the narrow screen checks only the rules that depend on the width.
	async axe(selector = 'html') {
		await this.page.evaluate(axeSource)
		await this.each(async (where, width, scheme) => {
			const label = `${new URL(this.page.url()).search.replace(/\W+/g, '-')}-${width}-${scheme}`
			const options = scheme === 'dark' ? { runOnly: ['color-contrast'] } : { runOnly: axeRules }
			if (width < widths[0]) options.rules = { 'color-contrast': { enabled: false } }
			if (width < widths[0] && selector !== 'html') Object.assign(options, { runOnly: ['target-size'], rules: {} })
			if (width < widths[0] && scheme === 'dark') return this.shot(label)
			const found = await this.page.evaluate(async ([selector, options]) => {
				const { violations } = await globalThis.axe.run(selector, { ...options, resultTypes: ['violations'], preload: false })
				return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')}`)
			}, [selector, options])
			for (const what of found) this.wrong.push(`axe, ${where}: ${what}`)
			await this.noSidewaysScroll(where)
			await this.noScrollingTabs(where)
			await this.shot(label)
		})
	}

	async noSidewaysScroll(where = '') {
		const over = await this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
		assert.ok(over <= 0, `${this.page.url()} scrolls sideways by ${over} px ${where}`)
	}

	// noScrollingTabs expects strips of tabs to scroll sideways only.
	async noScrollingTabs(where = '') {
		const over = await this.page.evaluate(() => Math.max(0, ...[...document.querySelectorAll('.tabs')].map((strip) => strip.scrollHeight - strip.clientHeight)))
		assert.ok(over <= 0, `${this.page.url()} has tabs that scroll up and down by ${over} px ${where}`)
	}

	// clicks returns a function that clicks, and refuses to do so more than this many times.
	clicks(limit) {
		let left = limit
		return async (target) => {
			assert.ok(left-- > 0, `more than ${limit} clicks`)
			await (typeof target === 'string' ? this.page.locator(target) : target).click()
		}
	}

	async press(...keys) {
		for (const key of keys) await this.page.keyboard.press(key)
	}

	// tabTo presses Tab until an element has the focus, which must show.
	async tabTo(target) {
		const locator = typeof target === 'string' ? this.page.locator(target).first() : target
		const wanted = await locator.elementHandle()
		const look = (wanted) => {
			const at = document.activeElement
			const { outlineStyle, boxShadow } = getComputedStyle(at)
			const seen = (globalThis.oarlockTabbed ??= new Set())
			const again = seen.has(at)
			seen.add(at)
			return { there: at === wanted, shows: outlineStyle !== 'none' || boxShadow !== 'none', again }
		}
		await this.page.evaluate(() => delete globalThis.oarlockTabbed)
		for (let at = {}; !at.there;) {
			await this.press('Tab')
			at = await this.page.evaluate(look, wanted)
			assert.ok(at.there || !at.again, `Tab does not reach ${target}`)
			assert.ok(!at.there || at.shows, `the focus of ${target} does not show`)
		}
	}

	// until waits until a function in the page returns true.
	async until(what, holds, argument) {
		await this.page.waitForFunction(holds, argument).catch((error) => assert.fail(`${what}: ${error.message}`))
	}

	// control sends a request to the control server, if the world has one. The server is not part of the pages.
	async control(what) {
		const response = await fetch(`${this.world.Control}/${what}`)
		const text = await response.text()
		assert.ok(response.ok, `${what}: ${text}`)
		return text
	}

	// eventually waits until a function outside of the page returns true.
	async eventually(what, holds) {
		const end = performance.now() + this.patience
		while (!(await holds())) {
			assert.ok(performance.now() < end, what)
			await this.page.waitForTimeout(lookAgain)
		}
	}

	async shot(label) {
		const folder = process.env.OARLOCK_TEST_SHOTS
		if (!folder) return
		mkdirSync(folder, { recursive: true })
		await this.page.screenshot({ path: join(folder, `${this.name}-${label}.png`), fullPage: true })
	}
}

let bench // of the running script
const judged = new Set() // paths with HTML that was checked

// newContext makes a context for pages, and reports faults in it to the bench.
async function newContext(browser, options) {
	const context = await browser.newContext({ viewport, timezoneId: 'Europe/Berlin', locale: 'en-GB', ...options })
	await context.addInitScript(() => document.addEventListener('securitypolicyviolation', (e) => console.error(`CSP: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`)))
	context.on('page', (page) => page.on('crash', () => bench.complain('the page crashed')))
	context.on('weberror', (e) => bench.complain(`page error: ${e.error().message}`))
	context.on('console', (m) => m.type() === 'error' && bench.complain(`console: ${m.text()}`))
	context.on('dialog', (dialog) => {
		bench.complain(`dialog: ${dialog.message()}`)
		dialog.dismiss().catch(() => {}) // the dialog may have gone with its page
	})
	context.on('request', (r) => r.url().startsWith(bench.base + '/') || r.url().startsWith('data:') || bench.complain(`request to ${r.url()}`))
	context.on('response', (r) => r.status() >= 500 && bench.complain(`${r.status()} from ${r.url()}`))
	return context
}

// empty removes everything that a script left in the page.
async function empty(page) {
	await page.evaluate(() => localStorage.clear()).catch(() => {}) // the page may not be one of ours
	await page.context().clearCookies()
	for (const other of page.context().pages()) if (other !== page) await other.close()
	await page.goto('about:blank')
	await page.emulateMedia({ media: null, colorScheme: null })
	await page.setViewportSize(viewport)
}

async function runScript(browser, shared, folder, name) {
	const began = performance.now()
	const script = await import(new URL(`${name}.mjs`, folder))
	const page = script.options ? await (await newContext(browser, script.options)).newPage() : shared
	bench = new Bench(page.context(), page, name)
	try {
		await script.default(bench)
	} catch (error) {
		bench.wrong.unshift(error.message)
		await bench.shot('failed').catch(() => {})
	}
	await page.evaluate(() => 0).catch(() => {}) // everything that the page reported before arrives before this answer
	await (script.options ? page.context().close() : empty(page))
	return { name, ok: bench.wrong.length === 0, ms: Math.round(performance.now() - began), why: [...new Set(bench.wrong)].join('\n') }
}

const folder = flags.scripts ? new URL(`file://${flags.scripts}/`) : new URL('scripts/', import.meta.url)
const all = readdirSync(folder).filter((file) => file.endsWith('.mjs')).map((file) => file.slice(0, -4)).sort()
const browser = await chromium.launch({ executablePath: findChromium(), args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] })
let failed = 0
try {
	const shared = await (await newContext(browser, {})).newPage()
	for (const name of names.length ? names : all) {
		const result = await runScript(browser, shared, folder, name)
		failed += result.ok ? 0 : 1
		console.log(flags.json ? JSON.stringify(result) : result.ok ? `ok ${name} ${result.ms} ms` : `FAIL ${name} ${result.why}`)
	}
} finally {
	await browser.close()
}
process.exitCode = failed ? 1 : 0
