package graphview

import (
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// FromSpec is the view of a checked file, whose graph it is given: steps carry the names that people gave them, and the
// actions that the graph knows nothing of.
func FromSpec(s *dagspec.Spec, g *dagrun.Graph) View {
	v := FromGraph(g)
	v.Name = s.Name
	for i := range v.Nodes {
		step, ok := g.Step(i).Data.(*dagspec.Step)
		if !ok {
			continue
		}
		v.Nodes[i].Label = step.Name
		if step.Action != "" && g.Step(i).Body == dagrun.BodyTask {
			v.Nodes[i].Badges = append([]string{step.Action}, v.Nodes[i].Badges...)
		}
	}
	return v
}
