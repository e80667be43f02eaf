// Package runview says what a run is, for people and programs: facts, notes, the story of a run, the commands to type next,
// and the JSON of runs and tasks. The command line prints what it returns, and the pages of the web show the same.
//
// Its functions are pure. They take rows that the caller has read, and a caller may leave out what it may not read: what
// follows from missing rows is then missing too. Text that comes from users is returned on one line and without
// characters that command a terminal or reorder what stands beside it. A caller that writes HTML still escapes it.
//
// All functions may be called from several goroutines at once. None changes what it is given, but for SortByGraph.
//
// The package knows no colours, no widths, no HTML, no terminal and no database.
package runview
