package graphview

import (
	_ "embed" // style.css
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

//go:embed style.css
var styleCSS string

// Measures of a picture, in pixels.
const (
	svgMargin   = 24
	svgGap      = 28 // between cards side by side, at least
	svgRise     = 44 // between layers
	svgPadding  = 16
	svgCard     = 38 // height of a card with one line
	svgLine     = 14 // height of a further line
	svgMinCard  = 88
	svgMinWidth = 240
	svgFan      = 8  // wider fans are folded
	svgLabel    = 44 // longest line, in characters
	svgStory    = 200
	svgSlack    = 16 // a line between cards that are nearly aligned goes straight
)

const svgTip = `<defs><marker id="oarlock-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" ` +
	`markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 1 10 5 0 9 2.5 5z"/></marker></defs>
`

// SVG draws a view as a self-contained picture. It follows the reader's light or dark colour scheme.
func SVG(v View) string {
	p := picture{right: svgMinWidth, y: svgMargin}
	if name := clip(clean(v.Name), svgLabel, "…"); name != "" {
		p.text("head", svgMargin, p.y+12, name)
		p.y += 36
	}
	p.draw(v)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="oarlock-title oarlock-desc" `+
		`width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d">
<title id="oarlock-title">%[3]s</title>
<desc id="oarlock-desc">%[4]s</desc>
<style>
%[5]s</style>
%[6]s<rect class="page" width="100%%" height="100%%" rx="12"/>
%[7]s</svg>
`, p.right+svgMargin, p.y+svgMargin, escape(titleOf(v)), escape(story(v)), styleCSS, svgTip, p.body.String())
}

// Link returns the address that the card of a node leads to, and whether the node is the selected one.
type Link func(Node) (href string, selected bool)

// Fragment draws a view as a part of a page. The page has the styles, so the fragment has no style sheet, page colour or name. Each
// card leads to the address that link returns; with a nil link the cards lead nowhere.
func Fragment(v View, link Link) string {
	p := picture{right: svgMinWidth, y: svgMargin, link: link}
	p.draw(v)
	return fmt.Sprintf(`<svg role="group" aria-label="%[3]s" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d">
%[4]s%[5]s</svg>
`, p.right+svgMargin, p.y+svgMargin, escape(titleOf(v)), svgTip, p.body.String())
}

func titleOf(v View) string {
	if v.Name == "" {
		return "Graph of steps"
	}
	return "Graph of " + v.Name
}

// story returns a description of the graph in words, for readers that do not see the picture: a sentence for each of the first
// svgStory nodes.
func story(v View) string {
	_, in := v.neighbours()
	lines := []string{fmt.Sprintf("%d steps and handlers, %d dependencies.", len(v.Nodes), len(v.Edges))}
	for i, n := range v.Nodes {
		if i == svgStory {
			lines = append(lines, "And so on.")
			break
		}
		lines = append(lines, v.sentence(n, in[i]))
	}
	return strings.Join(lines, "\n")
}

func (v View) sentence(n Node, in []int) string {
	s := n.title()
	if r := n.remarks(); len(r) > 0 {
		s += " (" + strings.Join(r, ", ") + ")"
	}
	for i, e := range in {
		switch {
		case i == svgFan:
			return s + " and others."
		case i == 0:
			s += " after "
		default:
			s += ", "
		}
		s += v.Nodes[v.Edges[e].From].title()
		if m := v.Edges[e].manner().means(); m != "" {
			s += " (" + m + ")"
		}
	}
	return s + "."
}

// picture is an SVG being drawn from the top.
type picture struct {
	body  strings.Builder
	right int
	y     int
	link  Link // nil: cards are no links
}

func (p *picture) draw(v View) {
	steps, handlers := Fold(v, svgFan).split()
	p.shelve(steps)
	p.lane(handlers)
	p.legend(v)
}

func (p *picture) text(class string, x, y int, s string) {
	fmt.Fprintf(&p.body, "<text class=%q x=\"%d\" y=\"%d\">%s</text>\n", class, x, y, escape(s))
}

// shelve draws the connected parts side by side, in rows of about the width of a page. It moves p.y below them, and p.right to
// where the widest row ends.
func (p *picture) shelve(steps View) {
	var parts []*svgGraph
	widest, area := svgMinWidth, 0.0
	for _, part := range components(steps) {
		g := newSVGGraph(part)
		parts = append(parts, g)
		widest = max(widest, int(g.width()))
		area += (g.width() + svgGap) * float64(g.height+svgRise)
	}
	limit := max(widest, int(math.Sqrt(area*2)))
	x, y, height := 0, p.y, 0
	for _, g := range parts {
		w := int(g.width())
		if x > 0 && x+w > limit {
			x, y, height = 0, y+height+svgRise, 0
		}
		g.draw(p, svgMargin+x, y)
		x += w + svgGap
		height = max(height, g.height)
		p.right = max(p.right, svgMargin+x-svgGap)
	}
	p.y = y + height
}

// lane draws the handlers below the steps, and moves p.y below them. Without handlers it draws nothing.
func (p *picture) lane(handlers []Node) {
	if len(handlers) == 0 {
		return
	}
	if p.y > svgMargin {
		p.y += svgRise
	}
	p.text("lane", svgMargin, p.y, "HANDLERS")
	fmt.Fprintf(&p.body, "<path class=\"rule\" d=\"M%d %dH%d\"/>\n", svgMargin+84, p.y-4, p.right)
	p.y += 20
	x, high := svgMargin, 0
	for _, n := range handlers {
		s := cardSize(n)
		if x > svgMargin && x+s.w > p.right {
			x, p.y, high = svgMargin, p.y+high+svgGap, 0
		}
		p.card(n, x, p.y, s)
		x += s.w + svgGap
		high = max(high, s.h)
		p.right = max(p.right, x-svgGap)
	}
	p.y += high
}

// legend explains each manner of line in v that is not the default, and moves p.y below that. If v has no such line, it draws
// nothing.
func (p *picture) legend(v View) {
	x := svgMargin
	used := map[manner]bool{}
	for _, e := range v.Edges {
		used[e.manner()] = true
	}
	for _, m := range manners {
		if !used[m] || m.means() == "" {
			continue
		}
		if x == svgMargin {
			p.y += svgRise
		}
		fmt.Fprintf(&p.body, "<path class=%q d=\"M%d %dh40\" marker-end=\"url(#oarlock-tip)\"/>\n", m.class(), x, p.y-4)
		p.text("note", x+48, p.y, m.means())
		x += 48 + textPixels(m.means(), 11) + svgGap
		p.right = max(p.right, x-svgGap)
	}
}

// escape cleans each line of a text, and escapes it for XML. clean removes the characters that XML cannot hold.
func escape(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		var b strings.Builder
		_ = xml.EscapeText(&b, []byte(clean(l))) // a Builder never fails
		lines[i] = b.String()
	}
	return strings.Join(lines, "\n")
}
