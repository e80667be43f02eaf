// Package runview describes a run for people and programs: facts, notes, the story of a run, the commands to type next, and
// the JSON of runs and tasks. The command line prints these texts, and the web pages show the same.
//
// All functions are pure. They take rows that the caller has read. A caller may leave out rows that its user may not read;
// the text that depends on them is then missing too. Text from users is returned on one line, without characters that
// control a terminal or reorder the text beside it. A caller that writes HTML must still escape it.
//
// All functions may be called from several goroutines at once. None changes its arguments, except SortByGraph.
//
// The package knows no colours, no widths, no HTML, no terminal and no database.
package runview
