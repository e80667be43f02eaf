package archtest

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed imports.txt
var importsText string

// row names a package, or a folder of packages, its floor, and the packages of ours that it may import.
type row struct {
	pkg   string // may end in /...
	ours  []string
	floor int // counts from below
	line  int // line of imports.txt
}

type importTable struct {
	floors []string
	rows   []row
}

var imports = parseTable(importsText)

// parseTable reads imports.txt. It panics on a line that it cannot read: the table is part of the program.
func parseTable(text string) importTable {
	var t importTable
	for n, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if floor, ok := strings.CutPrefix(line, "["); ok {
			t.floors = append(t.floors, strings.TrimSuffix(floor, "]"))
			continue
		}
		pkg, ours, ok := strings.Cut(line, "|")
		if !ok || len(t.floors) == 0 {
			panic(fmt.Sprintf("imports.txt:%d: neither a floor nor a package of one: %s", n+1, line))
		}
		t.rows = append(t.rows, row{strings.TrimSpace(pkg), list(strings.TrimSpace(ours)), len(t.floors) - 1, n + 1})
	}
	return t
}

func list(cell string) []string {
	if cell == "–" {
		return nil
	}
	return strings.Fields(cell)
}

// row returns the row of a package: its own, else the row of the nearest folder with /... above it.
func (t importTable) row(pkg string) (row, bool) {
	var found row
	for _, r := range t.rows {
		if covers(r.pkg, pkg) && len(r.pkg) > len(found.pkg) {
			found = r
		}
	}
	return found, found.pkg != ""
}

// covers reports whether an entry of the table covers a path.
func covers(entry, p string) bool {
	folder, deep := strings.CutSuffix(entry, "/...")
	return entry == "*" || entry == p || deep && (p == folder || strings.HasPrefix(p, folder+"/"))
}

func anyCovers(entries []string, p string) bool {
	return slices.ContainsFunc(entries, func(e string) bool { return covers(e, p) })
}
