package archtest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)
	codeSpan   = regexp.MustCompile("`([^`]+)`")
	repoPath   = regexp.MustCompile(`^\.?[A-Za-z][\w.*-]*(?:/[\w.*-]+)*/?$`)
	makeCall   = regexp.MustCompile(`^(?:\$ )?make ([a-z][a-z-]*)\b`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	standIn    = regexp.MustCompile(`/[A-Z]+(?:/|\.[a-z]+$|$)`) // sql/OWNER/NAME.sql: a pattern, not a path
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlug    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// topLevel lists the folders that may stand at the top of the module, whether they exist yet or not.
var topLevel = strings.Fields("cmd queue dagrun worker sql migrations integration internal docs examples deploy web tools .ci")

func checkDocuments(t *Tree) []Finding {
	var found []Finding
	for _, p := range t.Paths(".md") {
		if strings.Contains(p, "testdata/") {
			continue
		}
		if p == decisionsPage {
			found = append(found, checkContents(p, t.Text(p))...)
		}
		doc := document{t, p, targets(t)}
		fenced, brief := false, !strings.HasPrefix(p, "docs/internals/") && p != "ARCHITECTURE.md" && p != "CHANGELOG.md"
		for n, line := range strings.Split(t.Text(p), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
				continue
			}
			for _, why := range doc.check(line, fenced) {
				found = append(found, Finding{p, n + 1, why})
			}
			if brief && !fenced {
				found = append(found, checkCells(p, n+1, line)...)
			}
		}
	}
	return found
}

// cellWordsMax is how many words a cell of a table may have.
const cellWordsMax = 25

// checkCells reports the cells of a table's row that are too long.
func checkCells(p string, n int, line string) (found []Finding) {
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	for cell := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, ""), "|") {
		cell = anySpan.ReplaceAllString(cell, "code") // a span is one word
		if words := len(strings.Fields(cell)); words > cellWordsMax {
			found = append(found, Finding{p, n, fmt.Sprintf("a cell has %d words, and %d at most are read in a table: make it a paragraph or a list below", words, cellWordsMax)})
		}
	}
	return found
}

// decisionsPage is the page with a list of its headings at its top.
const decisionsPage = "docs/internals/decisions.md"

// checkContents reports headings of the third level that a page does not link exactly once above its first section.
func checkContents(p, text string) (found []Finding) {
	top, _, _ := strings.Cut(text, "\n## ")
	links := map[string]int{}
	for _, m := range linkTarget.FindAllStringSubmatch(top, -1) {
		links[m[1]]++
	}
	for n, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "### ") {
			continue
		}
		if anchor := "#" + anchors(line)[0]; links[anchor] != 1 {
			found = append(found, Finding{p, n + 1, fmt.Sprintf("the top of the page links %s %d times: link it once", anchor, links[anchor])})
		}
	}
	return found
}

// document is one markdown file under inspection.
type document struct {
	tree    *Tree
	path    string
	targets []string // of the Makefile
}

func targets(t *Tree) []string {
	var names []string
	for _, m := range makeTarget.FindAllStringSubmatch(t.Text("Makefile"), -1) {
		names = append(names, m[1])
	}
	return names
}

func (d document) check(line string, fenced bool) []string {
	if fenced {
		return d.checkCommand(strings.TrimSpace(line))
	}
	var whys []string
	for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
		whys = append(whys, d.checkCommand(m[1])...)
		whys = append(whys, d.checkPath(m[1])...)
	}
	for _, m := range linkTarget.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "code"), -1) {
		whys = append(whys, d.checkLink(m[1])...)
	}
	return whys
}

func (d document) checkCommand(text string) []string {
	m := makeCall.FindStringSubmatch(text)
	if m == nil || slices.Contains(d.targets, m[1]) {
		return nil
	}
	return []string{fmt.Sprintf("`make %s` is no target of the Makefile: it has %s", m[1], strings.Join(d.targets, " "))}
}

// checkPath checks a code span that looks like a path of this module: it begins with one of our folders, or it is a
// document.
func (d document) checkPath(text string) []string {
	first, _, deep := strings.Cut(text, "/")
	if !repoPath.MatchString(text) || strings.Contains(text, "**") || standIn.MatchString(text) && path.Ext(text) != ".md" {
		return nil
	}
	if !(deep && (slices.Contains(topLevel, first) || d.tree.folder[first])) && path.Ext(text) != ".md" {
		return nil
	}
	text = strings.TrimSuffix(strings.TrimSuffix(text, "/..."), "/")
	if d.tree.has(text) || d.tree.has(path.Join(path.Dir(d.path), text)) {
		return nil
	}
	return []string{fmt.Sprintf("there is no `%s`: correct the path", text)}
}

func (d document) checkLink(target string) []string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return nil
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := d.path
	if file != "" {
		to = path.Join(path.Dir(d.path), file)
	}
	switch {
	case !d.tree.has(to):
		return []string{fmt.Sprintf("link to %s leads nowhere: correct the path", target)}
	case anchor != "" && !slices.Contains(anchors(d.tree.Text(to)), anchor):
		return []string{fmt.Sprintf("link to %s: %s has no such heading, correct the anchor", target, to)}
	}
	return nil
}

// anchors returns the anchors that headings get on the web: small letters, dashes for spaces, nothing else.
func anchors(text string) []string {
	var names []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := notSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(strings.TrimSpace(plain), " ", "-"))
	}
	return names
}

// has reports whether the module has a path, which may contain *.
func (t *Tree) has(p string) bool {
	if t.files[p] || t.folder[p] {
		return true
	}
	if !strings.Contains(p, "*") {
		return false
	}
	for known := range t.files {
		if ok, _ := path.Match(p, known); ok {
			return true
		}
	}
	return false
}
