package graphview

import (
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// FromSpec is the view of a checked file, whose graph it is given: steps carry the names that people gave them.
func FromSpec(s *dagspec.Spec, g *dagrun.Graph) View {
	v := FromGraph(g)
	v.Name = s.Name
	for i := range v.Nodes {
		if step, ok := g.Step(i).Data.(*dagspec.Step); ok {
			v.Nodes[i].Label = step.Name
		}
	}
	return v
}
