// Package browser tests the pages of Oarlock in a real Chromium: what a person sees, clicks and types, with JavaScript and
// without, on a wide screen, a phone and paper. The scripts, and the runner that judges them, are in tools/browser; the tests
// here make a world for them, serve it, and want every script to pass. They skip where the machine has no browser.
package browser
