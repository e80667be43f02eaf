package draw

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// Measures of a strip, in pixels.
const (
	stripHeight = 26
	stripStep   = 6 // from one bar to the next
	stripLeast  = 4 // height of a bar with duration 0
)

// StripBar is a run in a strip.
type StripBar struct {
	Class string
	Title string
	Link  string
	Took  time.Duration
}

// Strip draws runs side by side. The height of a bar is its duration on a logarithmic scale. Screen readers and the keyboard skip
// the picture: the words beside it say the same, and a list links to the runs.
func Strip(bars []StripBar) template.HTML {
	longest := time.Duration(0)
	for _, bar := range bars {
		longest = max(longest, bar.Took)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" aria-hidden="true" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d">`, max(1, len(bars))*stripStep, stripHeight)
	for i, bar := range bars {
		height := stripLeast + (stripHeight-stripLeast)*math.Log1p(bar.Took.Seconds())/math.Log1p(max(longest.Seconds(), 1))
		fmt.Fprintf(&b, `<a href="%s" tabindex="-1"><title>%s</title><rect class="%s" x="%d" y="%.1f" width="%d" height="%.1f" rx="1"/></a>`,
			template.HTMLEscapeString(bar.Link), template.HTMLEscapeString(bar.Title), bar.Class, i*stripStep, stripHeight-height, stripStep-1, height)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // classes are ours, and all else is escaped
}
