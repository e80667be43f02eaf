package graphview_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/golden"
	"github.com/oarlock-dev/oarlock/internal/graphview"
)

func TestRenderers_DrawTheGoldenFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.graph")
	if err != nil || len(files) == 0 {
		t.Fatalf("no graphs in testdata: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".graph")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			v := parse(name, string(text))
			golden.Equal(t, filepath.Join("testdata", name+".txt"), graphview.Text(v, graphview.TextOptions{}))
			golden.Equal(t, filepath.Join("testdata", name+".ascii.txt"), graphview.Text(v, graphview.TextOptions{ASCII: true}))
			golden.Equal(t, filepath.Join("testdata", name+".narrow.txt"), graphview.Text(v, graphview.TextOptions{Width: 40}))
			golden.Equal(t, filepath.Join("testdata", name+".dot"), graphview.DOT(v))
			golden.Equal(t, filepath.Join("testdata", name+".mmd"), graphview.Mermaid(v))
			golden.Equal(t, filepath.Join("testdata", name+".svg"), graphview.SVG(v))
		})
	}
}

// parse reads a graph, a line at a time; nodes stand in order of mention:
//
//	a b -> c d          edges; also -finished->, -started->, -replaced->
//	@exit x* x~1 y      nodes: a handler, a foreach, a replacement, a step
//	a: failed; 2 slots  a state (or nothing) and a badge
//	a = free text       a label
//	# …                 nothing
func parse(name, text string) graphview.View {
	p := parser{v: graphview.View{Name: name}, at: map[string]int{}}
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "#") {
			p.line(line)
		}
	}
	return p.v
}

type parser struct {
	v  graphview.View
	at map[string]int
}

var arrows = []struct {
	text string
	edge graphview.Edge
}{
	{" -finished-> ", graphview.Edge{State: dagrun.OnFinished}},
	{" -started-> ", graphview.Edge{State: dagrun.OnStarted}},
	{" -replaced-> ", graphview.Edge{Replaces: true}},
	{" -> ", graphview.Edge{}},
}

func (p *parser) line(line string) {
	if id, label, ok := strings.Cut(line, " = "); ok {
		p.v.Nodes[p.node(id)].Label = label
		return
	}
	if id, rest, ok := strings.Cut(line, ": "); ok {
		state, badge, _ := strings.Cut(rest, ";")
		n := &p.v.Nodes[p.node(id)]
		n.State = state
		if badge != "" {
			n.Badges = append(n.Badges, strings.TrimSpace(badge))
		}
		return
	}
	for _, a := range arrows {
		if from, to, ok := strings.Cut(line, a.text); ok {
			p.edges(from, to, a.edge)
			return
		}
	}
	for _, id := range strings.Fields(line) {
		p.node(id)
	}
}

func (p *parser) edges(from, to string, e graphview.Edge) {
	for _, f := range strings.Fields(from) {
		e.From = p.node(f)
		for _, t := range strings.Fields(to) {
			e.To = p.node(t)
			p.v.Edges = append(p.v.Edges, e)
		}
	}
}

func (p *parser) node(id string) int {
	kind := graphview.Step
	switch {
	case strings.HasPrefix(id, "@"):
		kind = graphview.Handler
	case strings.Contains(id, "~"):
		kind = graphview.Replacement
	case strings.HasSuffix(id, "*"):
		id, kind = strings.TrimSuffix(id, "*"), graphview.Foreach
	}
	if _, ok := p.at[id]; !ok {
		p.at[id] = len(p.v.Nodes)
		p.v.Nodes = append(p.v.Nodes, graphview.Node{ID: id, Kind: kind})
	}
	return p.at[id]
}
