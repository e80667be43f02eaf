package screen

import (
	_ "embed" // style.css
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

//go:embed style.css
var styleCSS string

// Measures of a picture, in pixels; style.css has the size of the font.
const (
	cellWidth  = 8.4
	cellHeight = 20
	baseline   = 15
	margin     = 18
)

// SVG draws the last frame for as long as it stood, then all frames one after the other, again and again. Viewers without
// motion, or with motion turned off, show the last frame.
func SVG(title string, frames ...Frame) string {
	p := picture{known: map[string]int{}}
	columns, rows := 1, 1
	for _, f := range frames {
		columns = max(columns, f.columns)
		rows = max(rows, len(strings.Split(strings.TrimRight(f.String(), "\n"), "\n")))
	}
	width, height := float64(columns)*cellWidth, rows*cellHeight
	for i, f := range frames {
		p.frame(f, i*height, rows)
	}
	last := frames[len(frames)-1]
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="screen-title screen-desc" `+
		`width="%.0[1]f" height="%[2]d" viewBox="0 0 %.0[1]f %[2]d">
<title id="screen-title">%[3]s</title>
<desc id="screen-desc">%[4]s</desc>
<style>
%[5]s%[6]s</style>
<defs>
%[7]s</defs>
<rect class="page" width="100%%" height="100%%" rx="10"/>
<svg x="%[8]d" y="%[8]d" width="%.1[9]f" height="%[10]d">
<g class="film" transform="translate(0 %[11]d)">
%[12]s</g>
</svg>
</svg>
`, width+2*margin, height+2*margin, escape(title), escape(last.String()), styleCSS, film(frames, height), p.defs.String(), margin,
		width, height, -(len(frames)-1)*height, p.body.String())
}

// Text returns the text at the end of a picture that SVG made.
func Text(svg string) (string, error) {
	var read struct {
		Desc string `xml:"desc"`
	}
	if err := xml.Unmarshal([]byte(svg), &read); err != nil {
		return "", fmt.Errorf("read the picture: %w", err)
	}
	return read.Desc, nil
}

// picture is an SVG under construction. A line that stands in several frames is drawn once.
type picture struct {
	defs, body strings.Builder
	known      map[string]int
}

func (p *picture) frame(f Frame, top, rows int) {
	for i, line := range f.lines {
		drawn := drawLine(line)
		if drawn == "" || i >= rows {
			continue
		}
		n, ok := p.known[drawn]
		if !ok {
			n = len(p.known)
			p.known[drawn] = n
			fmt.Fprintf(&p.defs, "<g id=\"l%d\">%s</g>\n", n, drawn)
		}
		fmt.Fprintf(&p.body, "<use href=\"#l%d\" y=\"%d\"/>\n", n, top+i*cellHeight)
	}
}

func drawLine(line []cell) string {
	var b strings.Builder
	for _, p := range pieces(line) {
		fmt.Fprintf(&b, `<text%s x="%.1f" y="%d" textLength="%.1f">%s</text>`,
			classOf(p.style), float64(p.column)*cellWidth, baseline, float64(p.width)*cellWidth, escape(p.text))
	}
	return b.String()
}

func classOf(s Style) string {
	var classes []string
	if s.Bold {
		classes = append(classes, "bold")
	}
	if s.Dim {
		classes = append(classes, "dim")
	}
	if s.Colour != 0 {
		classes = append(classes, fmt.Sprintf("c%d", s.Colour))
	}
	if classes == nil {
		return ""
	}
	return fmt.Sprintf(" class=%q", strings.Join(classes, " "))
}

// film moves the frames past the window. Without the animation the window shows the last frame, so the film begins after
// a look at that frame.
func film(frames []Frame, height int) string {
	if len(frames) < 2 {
		return ""
	}
	var total, at time.Duration
	for _, f := range frames {
		total += f.Stood
	}
	last := frames[len(frames)-1].Stood
	var b strings.Builder
	fmt.Fprintf(&b, "@media (prefers-reduced-motion: no-preference) {\n.film { animation: film %.2fs step-end %.2fs infinite; }\n}\n",
		total.Seconds(), last.Seconds())
	b.WriteString("@keyframes film {\n")
	for i, f := range frames {
		fmt.Fprintf(&b, "  %.3f%% { transform: translateY(%dpx); }\n", 100*float64(at)/float64(total), -i*height)
		at += f.Stood
	}
	return b.String() + "}\n"
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return strings.NewReplacer("&#xA;", "\n", "&#34;", `"`, "&#39;", "'").Replace(b.String())
}
