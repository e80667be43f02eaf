// Package browser tests Oarlock's pages in a real Chromium: what a user sees, clicks and types, with JavaScript and
// without, on a wide screen, a phone and paper. The scripts, and the runner that judges them, are in tools/browser. The
// tests here make a world for the scripts, serve it, and expect every script to pass. They skip if the machine has no
// browser.
package browser
