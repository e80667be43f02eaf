package archtest

import (
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

const core = "dagrun"

// coreImports lists all packages that the core may import. Its tests may import more.
var coreImports = strings.Fields("cmp errors fmt iter slices strconv strings")

// printing lists the functions of fmt that do output, which the core may not do.
var printing = strings.Fields("Print Printf Println Fprint Fprintf Fprintln Scan Scanf Scanln Fscan Fscanf Fscanln")

func checkCore(t *Tree) []Finding {
	files := slices.DeleteFunc(t.In(core), func(f *GoFile) bool { return f.Test })
	info := typesOf(t, files)
	var found []Finding
	for _, f := range files {
		for _, spec := range f.Imports {
			if p := unquote(spec.Path); !slices.Contains(coreImports, p) {
				found = append(found, t.at(spec.Pos(), "the core may not import %s, only %s: take the value as an event or an option", p, strings.Join(coreImports, " ")))
			}
		}
		for _, use := range f.uses("fmt", printing...) {
			found = append(found, t.at(use.Pos(), "the core may not do output with fmt.%s: return what there is to say", use.Sel.Name))
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if why := impure(t, f, info, n); why != "" {
				found = append(found, t.at(n.Pos(), "%s", why))
			}
			return true
		})
	}
	return found
}

// impure returns why a node is forbidden in the core, "" if it is allowed.
func impure(t *Tree, f *GoFile, info *types.Info, n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "the core may not start goroutines: return an Action and let the driver perform it"
	case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
		return "the core may not use channels: take an Event, return a Ready"
	case *ast.CallExpr:
		if isIdent(n.Fun, "print") || isIdent(n.Fun, "println") {
			return "the core may not do output: return what there is to say"
		}
	case *ast.RangeStmt:
		if n.Key != nil && isMap(info, n.X) && !annotated(t, f, n.Pos(), "order-free:") {
			return "the order of a map differs from run to run: go over sorted keys, or say why it cannot matter with `// order-free: reason`"
		}
	}
	return ""
}

func isMap(info *types.Info, e ast.Expr) bool {
	typ := info.TypeOf(e)
	if typ == nil {
		return false
	}
	_, is := typ.Underlying().(*types.Map)
	return is
}

// annotated reports whether a comment with this mark and a reason stands on the line or right above it.
func annotated(t *Tree, f *GoFile, pos token.Pos, mark string) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			_, reason, ok := strings.Cut(c.Text, mark)
			below := t.line(pos) - t.line(c.Pos())
			if ok && strings.TrimSpace(reason) != "" && (below == 0 || below == 1) {
				return true
			}
		}
	}
	return false
}

// typesOf infers types without the imports: almost all maps of the core have types of its own package.
func typesOf(t *Tree, files []*GoFile) *types.Info {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	parsed := make([]*ast.File, len(files))
	for i, f := range files {
		parsed[i] = f.File
	}
	_, _ = config.Check(core, t.fset, parsed, info) // errors about names that were not imported are expected
	return info
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not looked at") }
