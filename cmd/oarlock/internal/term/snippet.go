package term

import (
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

const (
	tabText      = "    " // replaces a tab of a source line, so that the caret stands below the right column
	leastSnippet = 10     // columns of a source line that are shown on any terminal
)

// Snippet quotes source, the line of a file with this number, and puts a caret below its character with index caret, from 0. If the
// quote is wider than columns, it shows only the part around the caret; 0 columns means no limit. It returns "" if number is less
// than 1 or the line is blank.
func (p Painter) Snippet(number int, source string, caret, columns int) string {
	if number < 1 || strings.TrimSpace(source) == "" {
		return ""
	}
	gutter := fmt.Sprintf("  %d | ", number)
	runes := []rune(source)
	caret = min(max(caret, 0), len(runes))
	before, after := sourceText(runes[:caret]), sourceText(runes[caret:])
	if columns > 0 {
		before, after = around(before, after, max(leastSnippet, columns-len(gutter)))
	}
	below := strings.Repeat(" ", len(gutter)-len("| ")) + "|"
	return p.Dim(gutter) + before + after + "\n" +
		p.Dim(below) + " " + strings.Repeat(" ", graphview.Columns(before)) + p.Bad("^")
}

func sourceText(runes []rune) string {
	return runview.Printable(strings.ReplaceAll(string(runes), "\t", tabText))
}

// around shortens before and after, the texts on either side of a caret, until both together fit in columns. Each side gets half of
// the columns, and the columns that the opposite side leaves free. "…" marks the end that was cut off.
func around(before, after string, columns int) (string, string) {
	left, right := graphview.Columns(before), max(1, graphview.Columns(after))
	if left+right <= columns {
		return before, after
	}
	room := max(columns/2, columns-right)
	if left > room {
		before = "…" + graphview.Last(before, room-1)
	}
	if room = columns - graphview.Columns(before); right > room {
		after = graphview.First(after, room-1) + "…"
	}
	return before, after
}
