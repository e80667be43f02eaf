package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
)

// questions are the keys that the header of every statement must have.
var questions = []string{"-- Purpose:", "-- Index:", "-- Locks:"}

// The files below sql/invariants are run as a folder, so no code names them one by one.
const invariants = "sql/invariants/"

func checkStatements(t *Tree) []Finding {
	var found []Finding
	named := namesInCode(t)
	for _, p := range t.Paths(".sql") {
		if !strings.HasPrefix(p, "sql/") || strings.Contains(p, "/testdata/") {
			continue
		}
		header := headerOf(t.Text(p))
		for _, q := range questions {
			if !answers(header, q) {
				found = append(found, Finding{p, 1, "the header does not answer `" + q + "`: say it above the statement"})
			}
		}
		name := strings.TrimSuffix(strings.TrimPrefix(p, "sql/"), path.Ext(p))
		if !named[name] && !strings.HasPrefix(p, invariants) {
			found = append(found, Finding{p, 1, "nothing uses this statement: call sql.Named(\"" + name + "\") or remove the file"})
		}
	}
	return found
}

func headerOf(source string) []string {
	var header []string
	for line := range strings.Lines(source) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		header = append(header, line)
	}
	return header
}

func answers(header []string, question string) bool {
	for _, line := range header {
		if answer, ok := strings.CutPrefix(line, question); ok && strings.TrimSpace(answer) != "" {
			return true
		}
	}
	return false
}

// namesInCode collects the strings of all code except tests: a statement that only a test names is unused.
func namesInCode(t *Tree) map[string]bool {
	named := map[string]bool{}
	for _, f := range t.Go {
		if f.Test {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				named[unquote(lit)] = true
			}
			return true
		})
	}
	return named
}
