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

// Without returns the statement with this name, and leaves out some parts of it. A caller that often needs only some parts
// saves the server work: it prepares each execution, and that takes longer for a longer text. A part is the text between
// two comments, each on a line of its own:
//
//	-- part NAME
//	...
//	-- end NAME
//
// Several parts may have the same name, and a part may contain others. Without panics if the statement has no part of a given
// name, and if a part does not end.
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
