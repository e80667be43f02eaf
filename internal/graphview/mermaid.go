package graphview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Mermaid writes a view as a Mermaid flowchart. Nodes are called n0, n1, …, because ids such as end or a-- are not safe in
// Mermaid.
func Mermaid(v View) string {
	var b strings.Builder
	b.WriteString("flowchart TB\n")
	lane := ""
	classes := map[string][]string{}
	for i, n := range v.Nodes {
		line := fmt.Sprintf("  n%d%s\n", i, mermaidShape(n))
		if n.Kind == Handler {
			lane += "  " + line
		} else {
			b.WriteString(line)
		}
		if n.State != "" {
			class := lookFor(n.State).class
			classes[class] = append(classes[class], fmt.Sprint("n", i))
		}
	}
	if lane != "" {
		b.WriteString("  subgraph handlers\n" + lane + "  end\n")
	}
	for _, e := range v.Edges {
		if e.within(v) {
			fmt.Fprintf(&b, "  n%d %s n%d\n", e.From, mermaidArrow(e), e.To)
		}
	}
	mermaidClasses(&b, classes)
	return b.String()
}

func mermaidShape(n Node) string {
	text := cmp.Or(mermaidText(n.title()), " ") // Mermaid does not accept an empty label
	for _, rest := range pack(n.remarks(), " · ", lineOfRemarks) {
		text += "<br/>" + mermaidText(rest)
	}
	switch n.Kind {
	case Foreach:
		return `[["` + text + `"]]`
	case Handler:
		return `(["` + text + `"])`
	case Replacement:
		return `>"` + text + `"]`
	}
	return `["` + text + `"]`
}

func mermaidArrow(e Edge) string {
	m := e.manner()
	switch {
	case m.replaces:
		return "==>|" + m.means() + "|"
	case m.means() != "":
		return "-.->|" + m.means() + "|"
	}
	return "-->"
}

var mermaidStyles = map[string]string{
	"active":  "fill:#fff3d1,stroke:#b7791f,color:#1f2937",
	"bad":     "fill:#fde2e1,stroke:#c53030,color:#1f2937",
	"faint":   "fill:#eceff3,stroke:#8a94a6,color:#4b5563",
	"good":    "fill:#daf3e0,stroke:#2f855a,color:#1f2937",
	"neutral": "fill:#ffffff,stroke:#8a94a6,color:#1f2937",
	"waiting": "fill:#dfeafe,stroke:#2b6cb0,color:#1f2937",
}

func mermaidClasses(b *strings.Builder, classes map[string][]string) {
	var names []string
	for name := range classes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(b, "  classDef %s %s\n  class %s %s\n", name, mermaidStyles[name], strings.Join(classes[name], ","), name)
	}
}

// mermaidText cleans a text, and escapes it for a quoted label of Mermaid. It writes every character that could be syntax, markup
// or Markdown as an entity code.
func mermaidText(s string) string {
	var b strings.Builder
	for i, r := range clean(s) {
		switch {
		case r == '-' && i > 0, strings.ContainsRune(" _/,:", r), r > 0x7f, unicode.IsLetter(r), unicode.IsDigit(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
