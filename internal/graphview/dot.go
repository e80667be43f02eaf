package graphview

import (
	"fmt"
	"strings"
)

// DOT writes a view in Graphviz' language.
func DOT(v View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotQuote(v.Name))
	b.WriteString("  graph [rankdir=TB, fontname=\"Helvetica\"];\n")
	b.WriteString("  node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", color=\"#8a94a6\", fontname=\"Helvetica\"];\n")
	b.WriteString("  edge [color=\"#8a94a6\", fontname=\"Helvetica\", fontsize=11];\n")
	lane, order := "", []string(nil)
	for _, n := range v.Nodes {
		if n.Kind == Handler {
			lane += "  " + dotNode(n)
			order = append(order, dotQuote(n.ID))
		} else {
			b.WriteString(dotNode(n))
		}
	}
	if lane != "" {
		b.WriteString("  subgraph cluster_handlers {\n    label=\"handlers\"; style=dashed; color=\"#8a94a6\";\n" + lane)
		b.WriteString("    { rank=same; " + strings.Join(order, " -> ") + " [style=invis]; }\n  }\n")
	}
	for _, e := range v.Edges {
		if e.within(v) {
			fmt.Fprintf(&b, "  %s -> %s%s;\n", dotQuote(v.Nodes[e.From].ID), dotQuote(v.Nodes[e.To].ID), dotEdge(e))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

var dotFill = map[string]string{
	"bad": "#fde2e1", "active": "#fff3d1", "waiting": "#dfeafe", "good": "#daf3e0", "faint": "#eceff3", "neutral": "#ffffff",
}

func dotNode(n Node) string {
	label := dotText(n.title())
	for _, rest := range pack(n.remarks(), " · ", lineOfRemarks) {
		label += `\n` + dotText(rest)
	}
	attrs := `label="` + label + `"`
	if n.State != "" {
		attrs += fmt.Sprintf(", fillcolor=%q", dotFill[lookFor(n.State).class])
	}
	switch n.Kind {
	case Foreach:
		attrs += ", shape=box3d, style=filled"
	case Handler:
		attrs += `, style="rounded,dashed"`
	}
	return fmt.Sprintf("  %s [%s];\n", dotQuote(n.ID), attrs)
}

func dotEdge(e Edge) string {
	switch m := e.manner(); {
	case m.replaces:
		return ` [style=bold, arrowhead=vee, label="replaced by"]`
	case m.means() != "":
		return fmt.Sprintf(" [style=dashed, arrowhead=empty, label=%q]", m.means())
	}
	return ""
}

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func dotQuote(s string) string { return `"` + dotText(s) + `"` }

// dotText escapes text for a quoted string. It doubles backslashes: in a label a backslash would begin an escape, and at the
// end it would escape the quote.
func dotText(s string) string {
	return dotEscapes.Replace(clean(s))
}
