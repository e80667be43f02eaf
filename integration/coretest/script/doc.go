// Package script reads and runs the text files in testdata. Each file shows one rule of the language by a graph, events,
// and the answers of the core.
//
// A file is a list of blocks. A block is a command, further lines if the command takes some, a line of four dashes, and
// the output of the command up to an empty line:
//
//	dag
//	a
//	b <- a when=false
//	----
//
//	begin
//	----
//	a: running #1
//	-> start a #1
//
// Text that starts with # is a comment. With -rewrite the test replaces the output below the dashes.
//
// # Graphs
//
// Each line is one step: its name, "<-" and its parents if it has some (parent:started and parent:finished are the other
// edges), then key=value. A line that starts with "run:" sets options of the run, a line with @ is a handler, and a line
// with ~ is a body that replace(…) can name. See dag.go for the keys.
//
// # What happens
//
// Every want for a slot is granted at once, and all records are stored at once, unless the script says "manual grants" or
// "manual commits". A commit that is not made is refused: the next event is stepped first. "crash" forgets the core and
// restores it from the stored rows, with the controls that are not decided.
package script
