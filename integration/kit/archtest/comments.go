package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// hangingMax is the share of a module's comment sentences that may hang on a pronoun.
const hangingMax = 0.05

var (
	// unnamed are pronouns that stand in place of an actor: a comment names it.
	unnamed = regexp.MustCompile(`(?i)\b(?:who|whoever|whose|nobody|somebody)\b`)

	// hanging matches sentences with a pronoun as subject or object that a clause of its own has to explain.
	hanging = regexp.MustCompile(`(?i)\b(?:who|whoever|whose|nobody|somebody|one that|those that|that of|says whether|is said|are said|is told|are told|` +
		`of its own accord|what (?:is|was|are|were|they|it|comes|came) [a-z]+)\b`)

	sentenceEnd = regexp.MustCompile(`[.!?](?:\s|$)`)
	directive   = regexp.MustCompile(`^//[a-z]+:[a-z]`)
)

// remark is a comment of one or more lines.
type remark struct {
	path  string
	line  int
	lines []string // without the comment signs
}

func checkComments(t *Tree) []Finding {
	var found []Finding
	all := remarks(t)
	for _, r := range all {
		for i, line := range r.lines {
			if word := unnamed.FindString(line); word != "" {
				found = append(found, Finding{r.path, r.line + i, fmt.Sprintf("%q in a comment: name the worker, the caller, the user", word)})
			}
		}
	}
	if hang, of := hangingShare(all); float64(hang) > hangingMax*float64(of) {
		found = append(found, Finding{"go.mod", 1, fmt.Sprintf("%d of %d sentences in comments hang on a pronoun, more than %.0f %%", hang, of, 100*hangingMax)})
	}
	return found
}

// hangingShare counts the sentences of comments, and how many of them hang on a pronoun.
func hangingShare(all []remark) (hang, of int) {
	for _, r := range all {
		for _, sentence := range sentenceEnd.Split(strings.Join(r.lines, " "), -1) {
			if strings.TrimSpace(sentence) == "" {
				continue
			}
			of++
			if hanging.MatchString(sentence) {
				hang++
			}
		}
	}
	return hang, of
}

// remarks returns the comments of Go and SQL files outside of testdata, without directives.
func remarks(t *Tree) []remark {
	var all []remark
	for _, f := range t.Go {
		for _, group := range f.Comments {
			all = append(all, goRemark(f.Path, t.fset, group))
		}
	}
	for _, p := range t.Paths(".sql") {
		if !strings.Contains("/"+p, "/testdata/") {
			all = append(all, sqlRemarks(p, t.Text(p))...)
		}
	}
	return all
}

func goRemark(path string, files *token.FileSet, group *ast.CommentGroup) remark {
	r := remark{path: path, line: files.Position(group.Pos()).Line}
	for _, c := range group.List {
		if directive.MatchString(c.Text) {
			r.lines = append(r.lines, "")
			continue
		}
		for line := range strings.SplitSeq(c.Text, "\n") {
			r.lines = append(r.lines, strings.Trim(line, "/* \t"))
		}
	}
	return r
}

// sqlRemarks takes lines of comments that follow each other for one remark.
func sqlRemarks(path, text string) []remark {
	var all []remark
	last := -1
	for n, line := range strings.Split(text, "\n") {
		comment, ok := sqlComment(line)
		switch {
		case !ok:
			continue
		case n == last+1 && last >= 0 && strings.HasPrefix(strings.TrimSpace(line), "--"):
			all[len(all)-1].lines = append(all[len(all)-1].lines, comment)
		default:
			all = append(all, remark{path: path, line: n + 1, lines: []string{comment}})
		}
		last = n
	}
	return all
}

// sqlComment returns what follows the first -- of a line that stands outside of quotes.
func sqlComment(line string) (string, bool) {
	quoted := false
	for i := range line {
		switch {
		case line[i] == '\'':
			quoted = !quoted
		case !quoted && strings.HasPrefix(line[i:], "--"):
			return strings.TrimSpace(strings.TrimLeft(line[i:], "-")), true
		}
	}
	return "", false
}
