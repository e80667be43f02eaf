package archtest

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule is a condition that must hold for the whole module.
type Rule struct {
	Name  string
	Says  string
	Check func(*Tree) []Finding
}

// Finding is a place that breaks a rule. Text says what is wrong and what to do.
type Finding struct {
	Path string
	Line int
	Text string
}

func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text) }

// Rules lists all rules, in the order in which a reader of the code meets them.
var Rules = []Rule{
	{"imports", "packages import what imports.txt allows, and nothing else", checkImports},
	{"core", "dagrun is pure: no clock, goroutine, channel, output, or map order", checkCore},
	{"packages", "every package says what it is for, and has its row in ARCHITECTURE.md", checkPackages},
	{"sqltext", "SQL stands in sql/ and migrations/, not in Go strings", checkSQLText},
	{"statements", "every file in sql/ has a header and is used", checkStatements},
	{"documents", "links, paths and make targets in documents exist, and the list of decisions is complete", checkDocuments},
	{"comments", "comments name their actors, and few sentences hang on a pronoun", checkComments},
	{"texts", "texts that users read name their actors", checkTexts},
	{"documented", "what tables, the Makefile and documents name exists: packages, paths, identifiers", checkDocumented},
}

// Run checks the rule and returns its findings by place.
func (r Rule) Run(t *Tree) []Finding {
	found := r.Check(t)
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(found)
}
