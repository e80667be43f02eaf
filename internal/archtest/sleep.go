package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// checkSleep looks at tests and at packages that exist for tests; integration injects faults over real time.
func checkSleep(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		if !f.Test && !strings.HasSuffix(path.Base(f.Dir), "test") || covers("integration/...", f.Dir) {
			continue
		}
		for _, use := range f.uses("time", "Sleep") {
			if inBubble(f, use) {
				continue
			}
			found = append(found, t.at(use.Pos(), "tests do not sleep: wait on a signal, use testing/synctest, or poll with a deadline"))
		}
		for _, nap := range naps(f) {
			found = append(found, t.at(nap.Pos(), "waiting for time.After alone is a sleep: wait on a signal, use testing/synctest, or poll with a deadline"))
		}
	}
	return found
}

// inBubble says whether a place is inside a call of synctest.Test, where a sleep takes no time.
func inBubble(f *GoFile, place ast.Node) bool {
	found := false
	ast.Inspect(f.File, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && call.Pos() <= place.Pos() && place.End() <= call.End() {
			found = found || slices.ContainsFunc(f.uses("testing/synctest", "Test"), func(use *ast.SelectorExpr) bool { return call.Fun == ast.Expr(use) })
		}
		return !found
	})
	return found
}

// naps finds statements that are nothing but <-time.After(d). As one case of a select it is a deadline.
func naps(f *GoFile) []ast.Stmt {
	deadlines := map[ast.Stmt]bool{}
	var found []ast.Stmt
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CommClause:
			deadlines[n.Comm] = true
		case *ast.ExprStmt:
			if receive, ok := n.X.(*ast.UnaryExpr); ok && receive.Op == token.ARROW && !deadlines[n] && isAfter(f, receive.X) {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

func isAfter(f *GoFile, e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && slices.ContainsFunc(f.uses("time", "After"), func(use *ast.SelectorExpr) bool { return call.Fun == ast.Expr(use) })
}
