package archtest

import (
	"go/ast"
	"go/token"
	"strings"
)

const (
	commandsDir    = "internal/cli"
	commandLibrary = "github.com/urfave/cli/v2"
	exitStatus     = "EXIT STATUS"
)

// checkCommands wants the words EXIT STATUS in what makes up the description of each command that does something: its
// text, or that of a constant or function of the package that it is put together from.
func checkCommands(t *Tree) []Finding {
	var found []Finding
	texts := packageTexts(t, commandsDir)
	for _, f := range t.In(commandsDir) {
		local := f.imported(commandLibrary)
		if f.Test || local == "" {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && isCommand(lit, local) && field(lit, "Action") != nil {
				if !says(texts, field(lit, "Description"), exitStatus) {
					found = append(found, t.at(lit.Pos(), "the command has no %s in its Description: list the codes it exits with, and when", exitStatus))
				}
			}
			return true
		})
	}
	return found
}

func isCommand(lit *ast.CompositeLit, local string) bool {
	sel, ok := lit.Type.(*ast.SelectorExpr)
	return ok && isIdent(sel.X, local) && sel.Sel.Name == "Command"
}

func field(lit *ast.CompositeLit, name string) ast.Expr {
	for _, e := range lit.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok && isIdent(pair.Key, name) {
			return pair.Value
		}
	}
	return nil
}

// says looks for words in the strings of an expression and of the declarations it names.
func says(texts map[string]string, e ast.Expr, words string) bool {
	if e == nil {
		return false
	}
	said := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			said = said || n.Kind == token.STRING && strings.Contains(unquote(n), words)
		case *ast.Ident:
			said = said || strings.Contains(texts[n.Name], words)
		}
		return !said
	})
	return said
}

// packageTexts maps each constant, variable and function of a package to the strings in it.
func packageTexts(t *Tree, dir string) map[string]string {
	texts := map[string]string{}
	for _, f := range t.In(dir) {
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				texts[decl.Name.Name] += stringsIn(decl)
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						texts[v.Names[0].Name] += stringsIn(v)
					}
				}
			}
		}
	}
	return texts
}

func stringsIn(n ast.Node) string {
	var all strings.Builder
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			all.WriteString(unquote(lit))
		}
		return true
	})
	return all.String()
}
