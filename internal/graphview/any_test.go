package graphview_test

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/graphview"
)

func TestRenderers_TakeAnyViewAndEscapeIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { checkAll(t, anyView(t)) })
}

func FuzzRenderers(f *testing.F) {
	for _, label := range []string{"a", `"]; x -> y; ["`, "\"<script>alert(1)</script>&", "\x1b[2J\x00\r\n\t", "\xff\xfe", "\u202eabc\u2066", "شلام 数据", "`1. *x*`#;%%{", "\\", "\u200d\u0301"} {
		f.Add(label, label, uint8(3))
	}
	f.Fuzz(func(t *testing.T, label, badge string, n uint8) {
		v := graphview.View{Name: label}
		for i := range int(n % 12) {
			v.Nodes = append(v.Nodes, graphview.Node{ID: label, Label: badge, Badges: []string{badge}, State: label})
			v.Edges = append(v.Edges, graphview.Edge{From: i / 2, To: i})
		}
		checkAll(t, v)
	})
}

// anyView makes a View that need not make sense: edges may be double, lead nowhere or in circles.
func anyView(t *rapid.T) graphview.View {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"load", "a-b", "", `x\`, `"`, "end", "a;b", "#35;", "<b>", "]]>"}))
	kinds := rapid.SampledFrom([]graphview.Kind{graphview.Step, graphview.Foreach, graphview.Handler, graphview.Replacement, "new"})
	states := rapid.SampledFrom([]string{"", "failed", "running", "succeeded", "sleeping"})
	v := graphview.View{Name: text.Draw(t, "name")}
	for range rapid.IntRange(0, 30).Draw(t, "nodes") {
		v.Nodes = append(v.Nodes, graphview.Node{
			ID: text.Draw(t, "id"), Label: text.Draw(t, "label"), Kind: kinds.Draw(t, "kind"), State: states.Draw(t, "state"),
			Badges: rapid.SliceOfN(text, 0, 2).Draw(t, "badges"),
		})
	}
	end := rapid.IntRange(-1, len(v.Nodes))
	for range rapid.IntRange(0, 2*len(v.Nodes)).Draw(t, "edges") {
		v.Edges = append(v.Edges, graphview.Edge{
			From: end.Draw(t, "from"), To: end.Draw(t, "to"),
			State: dagrun.EdgeState(rapid.IntRange(0, 4).Draw(t, "edge")), Replaces: rapid.Bool().Draw(t, "replaces"),
		})
	}
	return v
}

func checkAll(t rapid.TB, v graphview.View) {
	t.Helper()
	for _, o := range []graphview.TextOptions{{Width: 80}, {Width: 30, Colour: true}, {Width: 200, ASCII: true}} {
		text := graphview.Text(v, o)
		if again := graphview.Text(v, o); again != text {
			t.Fatalf("drawn twice, two drawings:\n%s\n%s", text, again)
		}
		checkLines(t, text, o.Width)
	}
	checkDOT(t, twice(t, v, graphview.DOT))
	checkMermaid(t, twice(t, v, graphview.Mermaid))
	checkXML(t, twice(t, v, graphview.SVG))
}

func twice(t rapid.TB, v graphview.View, draw func(graphview.View) string) string {
	t.Helper()
	drawn := draw(v)
	if again := draw(v); again != drawn {
		t.Fatalf("drawn twice, two drawings:\n%s\n%s", drawn, again)
	}
	return drawn
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// checkLines checks that lines fit, are valid text, and hold no control sequences except our own colours.
func checkLines(t rapid.TB, text string, width int) {
	t.Helper()
	for _, line := range strings.Split(sgr.ReplaceAllString(text, ""), "\n") {
		if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) {
			t.Fatalf("control characters in %q", line)
		}
		if w := graphview.Columns(line); w > width {
			t.Fatalf("%d columns, more than %d: %q", w, width, line)
		}
		if strings.Count(line, "\u2068") != strings.Count(line, "\u2069") {
			t.Fatalf("isolates do not pair up: %q", line)
		}
	}
}

// dotLine matches the lines that a DOT drawing may consist of. Graphviz reads \" as a quote and leaves other characters
// alone.
var dotLine = func() *regexp.Regexp {
	const quoted = `"(?:[^"\\]|\\[^\n])*"`
	const value = `(?:` + quoted + `|[A-Za-z0-9.]+)`
	const attrs = ` \[\w+=` + value + `(?:, \w+=` + value + `)*\]`
	return regexp.MustCompile(`^(?:digraph ` + quoted + ` \{|  (?:graph|node|edge)` + attrs + `;| *` + quoted + `(?: -> ` + quoted + `)?(?:` + attrs + `)?;` +
		`|  subgraph cluster_handlers \{|    label="handlers"; style=dashed; color="#[0-9a-f]+";` +
		`|    \{ rank=same; ` + quoted + `(?: -> ` + quoted + `)* \[style=invis\]; \}| *\})?$`)
}()

func checkDOT(t rapid.TB, dot string) {
	t.Helper()
	for _, line := range strings.Split(dot, "\n") {
		if !dotLine.MatchString(line) {
			t.Fatalf("no line of DOT: %q", line)
		}
	}
}

var mermaidLine = regexp.MustCompile(`^(?:flowchart TB|  subgraph handlers|  end|  classDef [a-z]+ [a-z:,#0-9]+|  class [n0-9,]+ [a-z]+` +
	`|  n\d+ (?:-->|[-=.]+>\|[a-z ]+\|) n\d+| +n\d+(?:\[|\[\[|\(\[|>)"(?:[\p{L}\p{N} _/,:<>\-#;]|[^\x00-\x7f])+"[\])]+)?$`)

func checkMermaid(t rapid.TB, text string) {
	t.Helper()
	for _, line := range strings.Split(text, "\n") {
		bare := strings.ReplaceAll(line, "<br/>", "")
		if !mermaidLine.MatchString(bare) || strings.Contains(bare, "<") {
			t.Fatalf("no line of Mermaid: %q", line)
		}
	}
}

var ourElements = strings.Fields("svg title desc style defs marker path rect text g")

func checkXML(t rapid.TB, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("no XML: %v\n%s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok && !slices.Contains(ourElements, start.Name.Local) {
			t.Fatalf("an element of someone else's making: %s", start.Name.Local)
		}
	}
}
