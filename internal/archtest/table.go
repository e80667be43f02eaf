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
	pkg              string // may end in /...
	ours, importedBy []string
}

type importTable []row

// tableCells is how many cells a row of imports.txt has.
const tableCells = 3

var imports = parseTable(importsText)

// parseTable reads imports.txt. It panics on a row with a wrong number of cells: the table is part of the program.
func parseTable(text string) importTable {
	var t importTable
	for n, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != tableCells {
			panic(fmt.Sprintf("imports.txt:%d: %d cells, not %d", n+1, len(cells), tableCells))
		}
		if cells[0] != "package" {
			t = append(t, row{cells[0], list(cells[1]), list(cells[2])})
		}
	}
	return t
}

func list(cell string) []string {
	if cell == "–" {
		return nil
	}
	return strings.Fields(cell)
}

// row finds the row of a package: its own, else that of the nearest folder with /... above it.
func (t importTable) row(pkg string) (row, bool) {
	var found row
	for _, r := range t {
		if covers(r.pkg, pkg) && len(r.pkg) > len(found.pkg) {
			found = r
		}
	}
	return found, found.pkg != ""
}

// covers says whether an entry of the table takes in a path.
func covers(entry, p string) bool {
	folder, deep := strings.CutSuffix(entry, "/...")
	return entry == "*" || entry == p || deep && (p == folder || strings.HasPrefix(p, folder+"/"))
}

func anyCovers(entries []string, p string) bool {
	return slices.ContainsFunc(entries, func(e string) bool { return covers(e, p) })
}
