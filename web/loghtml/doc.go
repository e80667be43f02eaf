// Package loghtml turns the output of tasks into HTML: colours become classes, URLs become links, hits of a search are marked,
// and terminal sequences are removed.
//
// Each line is converted alone: its colours do not go on into the next line, so that a window of a log looks the same wherever it
// begins. The package builds HTML from bytes that an attacker may have written. Besides web/draw, it is the only one that does.
package loghtml
