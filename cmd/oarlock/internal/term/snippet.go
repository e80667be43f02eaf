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

// Snippet quotes a line of a file, with a caret below the character with index caret, from 0. If the terminal is too
// narrow, it shows the part of the line around the caret. It returns "" if there is nothing to show.
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

// around cuts the text before and after a place to so many columns: half of them for each, plus the columns that the other
// side does not need.
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
