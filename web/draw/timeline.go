package draw

import (
	"fmt"
	"html/template"
	"strings"
	"time"
)

// Measures of a row, in pixels.
const (
	barTop    = 9.0
	barHeight = 16.0
	barLeast  = 0.4 // percent, so that a bar without duration is visible
	noteRoom  = 30  // percent of the width that a note needs to the right of a bar
)

// Bar is a stretch of a row in one colour. Low and High are the part of the row's height that it fills, from the top, 0 to 1.
type Bar struct {
	Interval

	Class     string
	Title     string
	Low, High float64
}

// Row is the bars of one step.
type Row struct {
	Bars []Bar
	Gaps []Interval // between attempts
	In   string     // written into the last bar
	Note string     // written at the end of the row
}

// Row draws a step: its gaps, its bars, and one text. In is drawn into the bars if they are wide enough. Without In, Note is drawn
// where there is room: to the right of the bars, else to the left of them, or at the right end of a row without bars.
func (a *Axis) Row(r Row) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg aria-hidden="true">`)
	for _, g := range r.Gaps {
		if from, to := a.Percent(g.From), a.Percent(g.To); to > from {
			fmt.Fprintf(&b, `<line class="gap" x1="%s" x2="%s" y1="17" y2="17"/>`, percent(from), percent(to))
		}
	}
	last := 0.0
	for _, bar := range r.Bars {
		last = max(last, a.bar(&b, bar))
	}
	switch {
	case r.In != "" && len(r.Bars) > 0:
		from := a.Percent(r.Bars[0].From)
		if last-from > 2+float64(len(r.In)) {
			fmt.Fprintf(&b, `<text class="in" x="%s" y="21">%s</text>`, percent(from+0.9), template.HTMLEscapeString(r.In))
		}
	case r.Note != "" && len(r.Bars) > 0 && last < 100-noteRoom:
		fmt.Fprintf(&b, `<text class="inx" x="%s" y="21">%s</text>`, percent(last+0.9), template.HTMLEscapeString(r.Note))
	case r.Note != "" && (len(r.Bars) == 0 || a.Percent(r.Bars[0].From) > noteRoom):
		x := 99.4
		if len(r.Bars) > 0 {
			x = a.Percent(r.Bars[0].From) - 0.9
		}
		fmt.Fprintf(&b, `<text class="inx end" x="%s" y="21">%s</text>`, percent(x), template.HTMLEscapeString(r.Note))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // texts in it were escaped, and classes are ours
}

// bar draws a bar, at least barLeast wide, and returns the position of its right end. It draws nothing and returns 0 for a bar
// outside of the axis.
func (a *Axis) bar(b *strings.Builder, bar Bar) float64 {
	if bar.To.Before(a.From) || bar.From.After(a.To) {
		return 0
	}
	high := bar.High
	if high == 0 {
		high = 1
	}
	from, to := a.Percent(bar.From), a.Percent(bar.To)
	if to-from < barLeast {
		to = min(from+barLeast, 100)
		from = min(from, to-barLeast)
	}
	fmt.Fprintf(b, `<rect class="%s" x="%s" y="%.1f" width="%s" height="%.1f" rx="2">`, bar.Class, percent(from), barTop+barHeight*bar.Low, percent(to-from), barHeight*(high-bar.Low))
	if bar.Title != "" {
		b.WriteString("<title>" + template.HTMLEscapeString(bar.Title) + "</title>")
	}
	b.WriteString("</rect>")
	return to
}

// Mark is an event of the whole run, such as a lost worker.
type Mark struct {
	At    time.Time
	Label string
}

// Head draws the labels of the ticks, and below them the labels of the marks. label returns the text for a time since the start of
// the axis.
func (a *Axis) Head(label func(time.Duration) string, marks []Mark) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg aria-hidden="true">`)
	for i, t := range a.Ticks() {
		text, class := label(t.After), "t"
		if i%2 == 1 {
			class = "t t2" // the style sheet hides it on narrow screens
		}
		if i == 0 {
			class = "t0"
		}
		fmt.Fprintf(&b, `<text class="%s" x="%s" y="15">%s</text>`, class, percent(t.Percent), template.HTMLEscapeString(text))
	}
	for _, m := range marks {
		at := a.Percent(m.At)
		class := "lostt"
		if at > 50 {
			class = "lostt end"
		}
		fmt.Fprintf(&b, `<text class="%s" x="%s" y="33">%s</text>`, class, percent(at), template.HTMLEscapeString(m.Label))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // as in Row
}

// Grid draws the background of all rows: a line for each tick and mark, and the shortened stretches.
func (a *Axis) Grid(marks []Mark) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg class="grid-lines" aria-hidden="true">`)
	for _, p := range a.parts {
		if p.idle {
			fmt.Fprintf(&b, `<rect class="idle" x="%s" y="0" width="%s" height="100%%"/>`, percent(p.left), percent(p.right-p.left))
		}
	}
	for _, t := range a.Ticks() {
		fmt.Fprintf(&b, `<line class="grid" x1="%[1]s" x2="%[1]s" y1="0" y2="100%%"/>`, percent(t.Percent))
	}
	for _, m := range marks {
		fmt.Fprintf(&b, `<line class="lost" x1="%[1]s" x2="%[1]s" y1="0" y2="100%%"/>`, percent(a.Percent(m.At)))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // as in Row
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", x) }

// Part is one part of a progress bar.
type Part struct {
	Count int
	Class string
}

// Progress draws parts side by side, each as wide as its share of total. If their counts are less than total, the rest stays empty.
func Progress(parts []Part, total int) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg aria-hidden="true"><rect class="base" width="100%" height="8"/>`)
	at := 0.0
	for _, p := range parts {
		width := 100 * float64(p.Count) / float64(max(total, 1))
		if p.Count > 0 {
			fmt.Fprintf(&b, `<rect class="%s" x="%s" width="%s" height="8"/>`, p.Class, percent(at), percent(width))
		}
		at += width
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // classes are ours
}
