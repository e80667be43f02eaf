// Package archtest checks the shape of the code: which of our packages may import which, that the core is pure, and what
// every package, statement, command and document must say about itself. Rules that linters know are in .golangci.yml.
//
// A Rule looks at a Tree, the parsed source of a module, and returns a Finding for each place that breaks it: file, line,
// and what to do. The rules run over this module as a test; over small planted trees in testdata, each of which breaks
// one rule, they show that they can fail.
//
// The import table is imports.txt. ARCHITECTURE.md shows the same rows to people, and a rule keeps the two equal. To add
// a package, write a row in both.
//
// The package only reads. It runs no tool, needs no database, and knows nothing of what the code does when it runs. A
// Tree does not change once it is loaded, so rules may share one.
package archtest
