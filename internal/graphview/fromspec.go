package graphview

import (
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// FromSpec returns the view of a checked file and of the graph that was compiled from it. Nodes have the names from the file as
// labels, and the actions, which the graph does not hold, as badges.
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
