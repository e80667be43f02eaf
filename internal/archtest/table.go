package archtest

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed imports.txt
var importsText string

// row says what one package may import, and who may import it.
type row struct {
	pkg                                string // may end in /...
	ours, libraries, never, importedBy []string
}

// library is a module of others under its short name.
type library struct {
	name, module string
	tests        bool // every test may use it
}

type importTable struct {
	rows      []row
	libraries []library
}

var imports = parseTable(importsText)

// parseTable reads imports.txt. It panics on a row with a wrong number of cells: the table is part of the program.
func parseTable(text string) *importTable {
	t := &importTable{}
	width := 0
	for n, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "package" || cells[0] == "library" {
			width = len(cells)
			continue
		}
		if len(cells) != width {
			panic(fmt.Sprintf("imports.txt:%d: %d cells, the heading has %d", n+1, len(cells), width))
		}
		t.add(cells)
	}
	return t
}

func (t *importTable) add(cells []string) {
	if len(cells) == 3 {
		t.libraries = append(t.libraries, library{cells[0], cells[1], cells[2] == "tests"})
		return
	}
	t.rows = append(t.rows, row{cells[0], list(cells[1]), list(cells[2]), list(cells[3]), list(cells[4])})
}

func list(cell string) []string {
	if cell == "–" {
		return nil
	}
	return strings.Fields(cell)
}

// row finds the row of a package: its own, else that of the nearest folder with /... above it.
func (t *importTable) row(pkg string) (row, bool) {
	var found row
	for _, r := range t.rows {
		if covers(r.pkg, pkg) && len(r.pkg) > len(found.pkg) {
			found = r
		}
	}
	return found, found.pkg != ""
}

// library finds the short name of an import path.
func (t *importTable) library(importPath string) (library, bool) {
	for _, l := range t.libraries {
		if covers(l.module+"/...", importPath) {
			return l, true
		}
	}
	return library{}, false
}

// covers says whether an entry of the table takes in a path.
func covers(entry, p string) bool {
	folder, deep := strings.CutSuffix(entry, "/...")
	return entry == "*" || entry == p || deep && (p == folder || strings.HasPrefix(p, folder+"/"))
}

func anyCovers(entries []string, p string) bool {
	return slices.ContainsFunc(entries, func(e string) bool { return covers(e, p) })
}
