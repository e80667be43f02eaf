// Package archtest holds the shape of the code true: which package of ours may import which, that the core is pure, what
// every package, statement, command and document must say about itself. What linters can find is theirs: .golangci.yml.
//
// A Rule looks at a Tree, the parsed source of a module, and returns a Finding for each place that breaks it: file, line,
// and what to do. The rules run over this module as a test; over small planted trees in testdata, each of which breaks
// one rule, they show that they can fail.
//
// The import table is imports.txt; ARCHITECTURE.md shows the same rows to people, and a rule keeps the two equal. To add
// a package, write a row in both.
//
// The package only reads, runs no tool and needs no database. A Tree is never changed once loaded, so rules may share
// one. It knows nothing of what the code does when it runs.
package archtest
