package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

const (
	functionLines       = 70
	functionLinesMedian = 10
	fileLines           = 500
	fileLinesHard       = 700
	interfaceMethods    = 6
	architectureLines   = 120
)

// longFiles lists the files that may go up to fileLinesHard, each with its reason.
var longFiles = map[string]string{}

func checkSize(t *Tree) []Finding {
	var found []Finding
	var lengths []int
	for _, f := range t.Go {
		found = append(found, fileSize(f)...)
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				lines := t.line(n.End()) - t.line(n.Pos()) + 1
				if lines > functionLines {
					found = append(found, t.at(n.Pos(), "%s has %d lines, at most %d: split it into functions that do one thing", n.Name.Name, lines, functionLines))
				}
				if !f.Test {
					lengths = append(lengths, lines)
				}
			case *ast.TypeSpec:
				if methods := countMethods(t, f, n.Type); methods > interfaceMethods {
					found = append(found, t.at(n.Pos(), "interface %s has %d methods, at most %d: split it by the role it plays for each caller", n.Name.Name, methods, interfaceMethods))
				}
			}
			return true
		})
	}
	if lines := strings.Count(t.Text(architecture), "\n"); lines > architectureLines {
		found = append(found, Finding{architecture, lines, fmt.Sprintf("%d lines, at most %d: move detail to docs/", lines, architectureLines)})
	}
	return append(found, medianSize(lengths)...)
}

func fileSize(f *GoFile) []Finding {
	limit := fileLines
	if longFiles[f.Path] != "" {
		limit = fileLinesHard
	}
	if f.Lines <= limit {
		return nil
	}
	return []Finding{{f.Path, f.Lines, fmt.Sprintf("%d lines, at most %d: split it by what its parts are about", f.Lines, limit)}}
}

func medianSize(lengths []int) []Finding {
	slices.Sort(lengths)
	if len(lengths) == 0 || lengths[len(lengths)/2] <= functionLinesMedian {
		return nil
	}
	return []Finding{{"go.mod", 1, fmt.Sprintf("the median function of the module has %d lines, at most %d: split functions", lengths[len(lengths)/2], functionLinesMedian)}}
}

// countMethods counts the methods of an interface, those of embedded interfaces of the same package included; one from
// another package counts once.
func countMethods(t *Tree, f *GoFile, e ast.Expr) int {
	iface, ok := e.(*ast.InterfaceType)
	if !ok {
		return 0
	}
	count := 0
	for _, field := range iface.Methods.List {
		switch embedded := field.Type.(type) {
		case *ast.FuncType:
			count += len(field.Names)
		case *ast.Ident:
			count += countMethods(t, f, declaredType(t, f.Dir, embedded.Name))
		case *ast.SelectorExpr:
			count++
		}
	}
	return count
}

func declaredType(t *Tree, dir, name string) ast.Expr {
	var found ast.Expr
	for _, f := range t.In(dir) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == name {
				found = spec.Type
			}
			return found == nil
		})
	}
	return found
}
