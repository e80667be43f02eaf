package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// A string counts as SQL when it has the shape of a statement: the keywords in capitals, with what must stand behind
// them, or in small letters from the very start of the string. A word alone ("select one", "update") is English.
var (
	shouted = regexp.MustCompile(`(?s)\b(?:` + strings.Join([]string{
		`SELECT\s+(?:.+\sFROM\b|[\w.]+\(|[*\d'$])`, `INSERT\s+INTO\b`, `UPDATE\s+\S+\s+(?:AS\s+\S+\s+)?SET\b`, `DELETE\s+FROM\b`, `TRUNCATE\s+(?:TABLE\s+)?[\w."]`, `MERGE\s+INTO\b`,
		`(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+|TEMP\s+|UNLOGGED\s+|UNIQUE\s+)*(?:TABLE|INDEX|VIEW|SCHEMA|DATABASE|ROLE|USER|FUNCTION|PROCEDURE|TRIGGER|TYPE|EXTENSION|SEQUENCE|SYSTEM|POLICY)\b`,
		`GRANT\s+.+\sTO\b`, `REVOKE\s+.+\sFROM\b`, `SET\s+(?:LOCAL|SESSION|ROLE|search_path)\b`, `LOCK\s+TABLE\b`,
		`FOR\s+(?:NO\s+KEY\s+)?UPDATE\b`, `SKIP\s+LOCKED\b`, `COPY\s+\S+.*\s(?:FROM|TO)\b`,
		`WITH\s+\w+\s+AS\s*(?:MATERIALIZED\s*)?\(`, `VALUES\s*\(`, `RETURNING\s+[\w*]`, `ON\s+CONFLICT\b`,
	}, "|") + `)`)
	whispered = regexp.MustCompile(`^\s*(?:` + strings.Join([]string{
		`select\s+(?:[\w.*"]+(?:\s*,\s*[\w.*"]+)*\s+from\s+[\w."]+|[\w.]+\(|\d+\s*(?:;|$)|current_\w+)`,
		`insert\s+into\s+[\w.%"]+\s*(?:\(|values\b|select\b)`, `update\s+[\w.%"]+\s+set\s+[\w%"]+\s*=`,
		`delete\s+from\s+[\w.%"]+\s*(?:;|$|where\b|using\b)`, `with\s+\w+\s+as\s*\(`,
	}, "|") + `)`)
	// whole matches a string that consists of nothing else: the end of a transaction, a channel, the first half of a
	// concatenation.
	whole = regexp.MustCompile(`^\s*(?:` + strings.Join([]string{
		`(?:BEGIN|COMMIT|ROLLBACK|START\s+TRANSACTION)(?:\s+[A-Z\s]+)?\s*;?`, `(?:SELECT|UPDATE|DELETE|LISTEN|UNLISTEN|NOTIFY)\s`,
		`(?:LISTEN|UNLISTEN|NOTIFY)\s+(?:%s|"?[a-z]\w*_\w*"?)`,
	}, "|") + `)\s*$`)
)

// sqlHomes are packages that may hold SQL in Go strings; packages in sqlTestHomes may only in their tests.
var (
	sqlHomes     = []string{"sql/...", "migrations/...", "integration/kit/pgtest"}
	sqlTestHomes = []string{"internal/pglink", "internal/pglocal", "integration/kit/netfault", "integration/kit/pgcluster", "internal/listen", "examples/...", "queue/...", "worker/action/...", "worker/embed", "integration/storetest", "integration/weight", "integration/kit/archtest", "web/..."}
)

func checkSQLText(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		if anyCovers(sqlHomes, f.Dir) || f.Test && anyCovers(sqlTestHomes, f.Dir) {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if ok && lit.Kind == token.STRING && looksLikeSQL(unquote(lit)) && !annotated(t, f, lit.Pos(), "sql-shown:") {
				found = append(found, t.at(lit.Pos(), "SQL in a Go string: put it in sql/%s/NAME.sql and call sql.Named (text shown to people: `// sql-shown: reason`)", lastName(f.Dir)))
			}
			return true
		})
	}
	return found
}

// looksLikeSQL reports whether a string is a statement or a part of one. A text with %w is an error message.
func looksLikeSQL(text string) bool {
	if strings.Contains(text, "%w") {
		return false
	}
	return slices.ContainsFunc([]*regexp.Regexp{shouted, whispered, whole}, func(shape *regexp.Regexp) bool {
		return shape.MatchString(text)
	})
}

func lastName(dir string) string { return dir[strings.LastIndex(dir, "/")+1:] }
