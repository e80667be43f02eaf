// Package report keeps what fault runs came to, one line of JSON for each seed, and makes a page of it.
//
// A page says nothing that is not in its lines. The package knows no database and no clock.
package report
