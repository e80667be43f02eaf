package archtest

import (
	"regexp"
	"strings"
)

var laterMark = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)

func checkUnfinished(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Go {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if mark := laterMark.FindString(c.Text); mark != "" {
					found = append(found, t.at(c.Pos(), "%s: do it, or open an issue and say nothing here", mark))
				}
			}
		}
	}
	for _, p := range append(t.Paths(".sql"), t.Paths(".sh")...) {
		for n, line := range strings.Split(t.Text(p), "\n") {
			if mark := laterMark.FindString(line); mark != "" {
				found = append(found, Finding{p, n + 1, mark + ": do it, or open an issue and say nothing here"})
			}
		}
	}
	return found
}
