package archtest

import (
	"go/ast"
	"strings"
)

func checkImports(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		r, ok := imports.row(f.Dir)
		if !ok {
			found = append(found, t.at(f.Package, "package %s has no row in internal/archtest/imports.txt: add one there and in ARCHITECTURE.md", f.Dir))
			continue
		}
		for _, spec := range f.Imports {
			if why := refusal(t, f, r, unquote(spec.Path)); why != "" {
				found = append(found, t.at(spec.Pos(), "%s", why))
			}
		}
		found = append(found, forbiddenCalls(t, f, r)...)
	}
	return found
}

// refusal says why a file may not import a path, "" if it may.
func refusal(t *Tree, f *GoFile, r row, importPath string) string {
	switch ours, isOurs := strings.CutPrefix(importPath, t.Module+"/"); {
	case isOurs:
		return refuseOurs(f, r, ours)
	case strings.Contains(strings.Split(importPath, "/")[0], "."):
		return refuseLibrary(f, r, importPath)
	case !f.Test && anyCovers(r.never, importPath):
		return r.pkg + " never imports " + importPath + ": do it in the package whose work this is (see ARCHITECTURE.md)"
	}
	return ""
}

func refuseOurs(f *GoFile, r row, ours string) string {
	target, _ := imports.row(ours)
	switch {
	case f.Test || ours == f.Dir:
		return ""
	case anyCovers(r.never, ours):
		return r.pkg + " never imports " + ours + ": move what it needs, or pass it in through an interface"
	case !anyCovers(r.ours, ours):
		return r.pkg + " may not import " + ours + ": pass what it needs in, or change its row in internal/archtest/imports.txt"
	case !anyCovers(target.importedBy, f.Dir):
		return ours + " may not be imported by " + f.Dir + ": see its row in internal/archtest/imports.txt"
	}
	return ""
}

func refuseLibrary(f *GoFile, r row, importPath string) string {
	lib, known := imports.library(importPath)
	switch {
	case !known:
		return importPath + " is no library of ours: give the reason in docs/decisions.md and a short name in internal/archtest/imports.txt"
	case anyCovers(r.libraries, lib.name) || f.Test && lib.tests:
		return ""
	}
	return r.pkg + " may not import " + lib.name + ": go through the package that wraps it, or change its row in internal/archtest/imports.txt"
}

// forbiddenCalls finds uses of single functions that a row names under never.
func forbiddenCalls(t *Tree, f *GoFile, r row) []Finding {
	var found []Finding
	for _, entry := range r.never {
		pkg, name, ok := strings.Cut(entry, ".")
		if !ok || f.Test || !ast.IsExported(name) {
			continue
		}
		for _, use := range f.uses(pkg, name) {
			found = append(found, t.at(use.Pos(), "%s never uses %s: take the value as an argument", r.pkg, entry))
		}
	}
	return found
}
