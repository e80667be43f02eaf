package archtest

import "strings"

func checkImports(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		r, ok := imports.row(f.Dir)
		if !ok {
			found = append(found, t.at(f.Package, "package %s has no row in integration/kit/archtest/imports.txt: add one there and in ARCHITECTURE.md", f.Dir))
			continue
		}
		for _, spec := range f.Imports {
			ours, isOurs := strings.CutPrefix(unquote(spec.Path), t.Module+"/")
			if !isOurs || f.Test {
				continue
			}
			if why := refusal(f, r, ours); why != "" {
				found = append(found, t.at(spec.Pos(), "%s", why))
			}
		}
	}
	return found
}

// refusal returns why a file may not import a package of ours, "" if it may.
func refusal(f *GoFile, r row, ours string) string {
	target, _ := imports.row(ours)
	switch {
	case ours == f.Dir:
		return ""
	case !anyCovers(r.ours, ours):
		return r.pkg + " may not import " + ours + ": pass what it needs in, or change its row in integration/kit/archtest/imports.txt"
	case target.floor > r.floor:
		return r.pkg + " may not import " + ours + ": floor " + imports.floors[target.floor] + " is above " + imports.floors[r.floor]
	}
	return ""
}
