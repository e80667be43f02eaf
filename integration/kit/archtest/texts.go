package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

var (
	// speaking are the packages with texts that people read from the programs: help, messages, errors, logs.
	speaking = []string{"cmd/...", "dagrun/...", "internal/...", "migrations", "queue", "web/...", "worker/..."}

	nameHeading = regexp.MustCompile(`^#+ \w+$`) // the name of a function alone
	anySpan     = regexp.MustCompile("`[^`\n]+`")
)

// checkTexts reports the words of checkComments in texts for users: in strings of the programs, and in the pages of docs outside of
// docs/internals. Code in backquotes, blocks of code and targets of links may hold them, because there they are names.
func checkTexts(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		if !f.Test && anyCovers(speaking, f.Dir) {
			found = append(found, checkStrings(t, f)...)
		}
	}
	for _, p := range t.Paths(".md") {
		if p == "README.md" || strings.HasPrefix(p, "docs/") && !strings.HasPrefix(p, "docs/internals/") {
			found = append(found, checkProse(p, t.Text(p))...)
		}
	}
	return found
}

// checkStrings passes over strings without a space: they are names, as of a column, and no prose.
func checkStrings(t *Tree, f *GoFile) (found []Finding) {
	ast.Inspect(f.File, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || !strings.Contains(unquote(lit), " ") {
			return true
		}
		for i, line := range strings.Split(unquote(lit), "\n") {
			if word := unnamed.FindString(anySpan.ReplaceAllString(line, "")); word != "" {
				finding := t.at(lit.Pos(), "%s", unnamedWhy(word))
				if strings.HasPrefix(lit.Value, "`") {
					finding.Line += i
				}
				found = append(found, finding)
			}
		}
		return true
	})
	return found
}

func checkProse(p, text string) (found []Finding) {
	fenced := false
	for n, line := range strings.Split(text, "\n") {
		if nameHeading.MatchString(line) {
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if word := unnamed.FindString(linkTarget.ReplaceAllString(anySpan.ReplaceAllString(line, ""), "")); word != "" && !fenced {
			found = append(found, Finding{p, n + 1, unnamedWhy(word)})
		}
	}
	return found
}

func unnamedWhy(word string) string {
	return fmt.Sprintf("%q in a text for users: name the worker, the user, the program", word)
}
