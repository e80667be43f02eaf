// Package term lays text out for terminals: colours, tables, lines that are cut or folded to a width, and quotes of files. It also
// takes out of the text of other programs what would control the terminal.
package term
