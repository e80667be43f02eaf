package draw

import (
	"fmt"
	"html/template"
	"strings"
	"time"
)

// Measures of a pair, in pixels.
const (
	pairTop    = 7
	pairHeight = 8
	pairStep   = 11 // from one bar to the next
)

// Length is a bar with the length of a duration. Without a Class it is not drawn.
type Length struct {
	Class string
	Title string
	Took  time.Duration
}

// Pair draws two durations as bars, one below the other. A bar as long as longest has the whole width. Screen readers skip the
// picture: the words beside it say the same.
func Pair(above, below Length, longest time.Duration) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg aria-hidden="true">`)
	for i, l := range []Length{above, below} {
		if l.Class == "" {
			continue
		}
		width := max(100*float64(l.Took)/float64(max(longest, leastShown)), barLeast)
		fmt.Fprintf(&b, `<rect class="%s" x="0" y="%d" width="%s" height="%d" rx="2"><title>%s</title></rect>`,
			l.Class, pairTop+i*pairStep, percent(min(width, 100)), pairHeight, template.HTMLEscapeString(l.Title))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // classes are ours, and titles were escaped
}
