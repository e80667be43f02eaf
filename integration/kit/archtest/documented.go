package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	importsPath  = "integration/kit/archtest/imports.txt"
	makefilePath = "Makefile"
)

var (
	qualified = regexp.MustCompile(`\b([a-z][a-z0-9]*)\.([A-Z]\w*(?:\.[A-Z]\w*)?)`)
	docLink   = regexp.MustCompile(`\[([A-Z]\w*(?:\.[A-Z]\w*)?)\]`)
	makePath  = regexp.MustCompile(`(?:^|[\s'"=(/|%])((?:cmd|queue|dagrun|worker|sql|migrations|integration|internal|docs|examples|deploy|tools)/[a-z][\w./-]*)`)
)

// foreign lists names that packages of the standard library and packages of ours share, so that a bare name is ambiguous.
var foreign = []string{"embed", "exec", "http", "sql"}

// checkDocumented reports names in tables, build files and documents that do not exist: packages, paths, exported
// identifiers.
func checkDocumented(t *Tree) []Finding {
	return slices.Concat(checkTable(t), checkMakefile(t), newIndex(t).check(t))
}

// checkTable reports rows and entries of the import table that name a missing package, and packages below integration
// that are not on the highest floor.
func checkTable(t *Tree) []Finding {
	var found []Finding
	table := parseTable(t.Text(importsPath))
	for _, r := range table.rows {
		if covers("integration/...", r.pkg) && r.floor < len(table.floors)-1 {
			found = append(found, Finding{importsPath, r.line, fmt.Sprintf("%s is for tests: move it to floor %s", r.pkg, table.floors[len(table.floors)-1])})
		}
		for _, entry := range append([]string{r.pkg}, r.ours...) {
			if entry != "*" && !hasPackage(t, entry) {
				found = append(found, Finding{importsPath, r.line, fmt.Sprintf("there is no package %s: remove it from the table until there is", entry)})
			}
		}
	}
	return found
}

func checkMakefile(t *Tree) []Finding {
	var found []Finding
	for n, line := range strings.Split(t.Text(makefilePath), "\n") {
		for _, m := range makePath.FindAllStringSubmatch(line, -1) {
			if !t.has(strings.TrimSuffix(m[1], "/")) {
				found = append(found, Finding{makefilePath, n + 1, fmt.Sprintf("there is no %s: correct the path", m[1])})
			}
		}
	}
	return found
}

// index holds the exported names of each package, with their methods and fields, by the last part of the package's path.
type index map[string]map[string]bool

func newIndex(t *Tree) index {
	all := index{}
	for _, f := range t.Go {
		if f.Test {
			continue
		}
		base := path.Base(f.Dir)
		if all[base] == nil {
			all[base] = map[string]bool{}
		}
		for _, decl := range f.Decls {
			all.add(base, decl)
		}
	}
	return all
}

func (x index) add(base string, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		x[base][name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					x[base][name.Name] = true
				}
			case *ast.TypeSpec:
				x[base][s.Name.Name] = true
				for _, name := range members(s.Type) {
					x[base][s.Name.Name+"."+name] = true
				}
			}
		}
	}
}

func receiver(e ast.Expr) string {
	switch r := e.(type) {
	case *ast.StarExpr:
		return receiver(r.X)
	case *ast.IndexExpr:
		return receiver(r.X)
	case *ast.Ident:
		return r.Name
	}
	return ""
}

// members returns the fields of a struct, or the methods of an interface.
func members(e ast.Expr) (names []string) {
	var fields *ast.FieldList
	switch s := e.(type) {
	case *ast.StructType:
		fields = s.Fields
	case *ast.InterfaceType:
		fields = s.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			names = append(names, name.Name)
		}
		if len(f.Names) == 0 {
			names = append(names, receiver(f.Type))
		}
	}
	return names
}

// check checks package comments and documents.
func (x index) check(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		if f.Doc == nil || f.Test {
			continue
		}
		for _, c := range f.Doc.List {
			for _, m := range docLink.FindAllStringSubmatch(c.Text, -1) {
				if !strings.HasPrefix(c.Text, "//\t") && !x[path.Base(f.Dir)][m[1]] {
					found = append(found, t.at(c.Pos(), "[%s] is nothing of package %s: correct the name", m[1], f.Dir))
				}
			}
			for _, why := range x.unknown(c.Text) {
				found = append(found, t.at(c.Pos(), "%s", why))
			}
		}
	}
	for _, p := range t.Paths(".md") {
		if strings.Contains(p, "testdata/") {
			continue
		}
		for n, line := range strings.Split(t.Text(p), "\n") {
			for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
				for _, why := range x.unknown(m[1]) {
					found = append(found, Finding{p, n + 1, why})
				}
			}
		}
	}
	return found
}

// unknown explains which names in a text look like names of our packages and do not exist.
func (x index) unknown(text string) (whys []string) {
	for _, m := range qualified.FindAllStringSubmatch(text, -1) {
		names, ours := x[m[1]]
		if !ours || slices.Contains(foreign, m[1]) || names[m[2]] {
			continue
		}
		whys = append(whys, fmt.Sprintf("there is no %s.%s: correct the name", m[1], m[2]))
	}
	return whys
}
