package archtest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

const architecture = "ARCHITECTURE.md"

func checkPackages(t *Tree) []Finding {
	var found []Finding
	shown := architectureRows(t)
	for _, pkg := range t.Packages() {
		found = append(found, checkDoc(t, pkg)...)
		if r, ok := imports.row(pkg); ok {
			found = append(found, checkRow(shown, r)...)
		}
	}
	for _, s := range shown {
		if !hasPackage(t, s.pkg) {
			found = append(found, Finding{architecture, s.line, "there is no package " + s.pkg + ": remove the row until there is"})
		}
	}
	return found
}

// checkDoc reports a package without exactly one package comment. In a library the comment must be in doc.go.
func checkDoc(t *Tree, pkg string) []Finding {
	files := t.In(pkg)
	isMain := files[0].Name.Name == "main"
	for _, f := range files {
		if f.Doc != nil && (isMain || path.Base(f.Path) == "doc.go") {
			return nil
		}
	}
	if isMain {
		return []Finding{t.at(files[0].Package, "package %s has no comment: say above `package main` what the program does", pkg)}
	}
	return []Finding{t.at(files[0].Package, "package %s has no doc.go with a comment: say its job, what callers owe, concurrency, what it never knows", pkg)}
}

func checkRow(shown []shownRow, r row) []Finding {
	want := fmt.Sprintf("| %s |", cell(r.ours))
	i := slices.IndexFunc(shown, func(s shownRow) bool { return s.pkg == r.pkg })
	switch {
	case i < 0:
		return []Finding{{architecture, 1, fmt.Sprintf("package %s has no row: add | `%s` | its job %s", r.pkg, r.pkg, want)}}
	case shown[i].imports != want:
		return []Finding{{architecture, shown[i].line, fmt.Sprintf("the row of %s ends in %s but integration/kit/archtest/imports.txt says %s: make them equal", r.pkg, shown[i].imports, want)}}
	}
	return nil
}

func cell(entries []string) string {
	if len(entries) == 0 {
		return "–"
	}
	return strings.Join(entries, " ")
}

// shownRow is a row of the package table in ARCHITECTURE.md.
type shownRow struct {
	pkg, imports string
	line         int
}

var packageRow = regexp.MustCompile("^\\| `([a-z][a-z0-9/.-]*)` \\| [^|]+ (\\| [^|]+ \\|)$")

func architectureRows(t *Tree) []shownRow {
	var rows []shownRow
	for n, line := range strings.Split(t.Text(architecture), "\n") {
		if m := packageRow.FindStringSubmatch(line); m != nil {
			rows = append(rows, shownRow{m[1], m[2], n + 1})
		}
	}
	return rows
}

func hasPackage(t *Tree, entry string) bool {
	return slices.ContainsFunc(t.Packages(), func(pkg string) bool { return covers(entry, pkg) })
}
