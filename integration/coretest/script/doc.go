// Package script reads and runs the text files in testdata, which show the rules of the language one by one: a graph,
// what happens to it, and what the core answers.
//
// A file is a list of blocks. A block is a command, further lines where the command takes some, a line of four dashes,
// and what the command prints, up to an empty line:
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
// Text that starts with # is for the reader. The test rewrites what is below the dashes with -rewrite.
//
// # Graphs
//
// One step a line: its name, "<-" and its parents where it has some (parent:started and parent:finished are the other
// edges), then key=value. A line that starts with "run:" is about the run, one that starts with @ a handler, one
// that starts with ~ a body that replace(…) can name. See dag.go for the keys.
//
// # What happens
//
// Whatever wants a slot is granted one at once, and whatever the core wants stored is stored at once, unless the script
// says "manual grants" or "manual commits". A commit that is not made is refused: the next event is stepped first.
// "crash" forgets the core and restores it from what was stored, with the controls nobody has decided.
package script
