package sql

import (
	"fmt"
	"slices"
	"strings"
)

const (
	partBegins = "-- part "
	partEnds   = "-- end "
)

// Without is the statement of this name without parts of it, for callers that often need less than all of it: what the
// server prepares for each execution grows with the text. A part is what stands between two comments of their own lines:
//
//	-- part NAME
//	...
//	-- end NAME
//
// A name may have several parts, and there may be parts within parts. It panics on a name that the statement has no part of,
// and on a part that does not end.
func Without(name string, parts ...string) string { return without(name, Named(name), parts) }

func without(name, text string, parts []string) string {
	var kept strings.Builder
	var open []string // the parts around a line
	missing := slices.Clone(parts)
	for line := range strings.Lines(text) {
		mark := strings.TrimSpace(line)
		if part, ok := strings.CutPrefix(mark, partBegins); ok {
			open = append(open, part)
			missing = slices.DeleteFunc(missing, func(p string) bool { return p == part })
			continue
		}
		if part, ok := strings.CutPrefix(mark, partEnds); ok {
			if len(open) == 0 || open[len(open)-1] != part {
				panic(fmt.Sprintf("sql: %s: part %q ends where it is not open", name, part))
			}
			open = open[:len(open)-1]
			continue
		}
		if !slices.ContainsFunc(open, func(part string) bool { return slices.Contains(parts, part) }) {
			kept.WriteString(line)
		}
	}
	if len(open) > 0 || len(missing) > 0 {
		panic(fmt.Sprintf("sql: %s: parts %q do not end, %q are not there", name, open, missing))
	}
	return kept.String()
}
