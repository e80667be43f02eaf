// Package loghtml makes HTML of what tasks wrote: colours become classes, addresses become links, what was searched for is
// marked, and nothing that a terminal would obey is left.
//
// A line stands for itself: colours do not go on into the next one, so that a window of a log looks the same wherever it
// begins. The package makes HTML of bytes that anybody may have written; it and web/draw are the only ones that may.
package loghtml
