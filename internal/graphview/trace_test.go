package graphview_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/graphview"
)

// The test follows a line from a box as a reader does: down from its port, along and down at junctions, never up, straight
// on where lines cross. It must reach all children of the box, by the right manner of edge, and no other boxes.
func TestText_LinesLeadToTheChildrenAndNowhereElse(t *testing.T) {
	t.Parallel()
	drawn, all := 0, 0
	check := func(t *rapid.T) {
		all++
		if checkTrace(t, smallGraph(t)) {
			drawn++
		}
	}
	for range 5 { // rare tangles need more graphs than one check makes
		rapid.Check(t, check)
	}
	if drawn*10 < all*9 {
		t.Errorf("only %d of %d graphs became a drawing", drawn, all)
	}
}

// checkTrace reports whether the view became a drawing. It becomes a list if two lines get in each other's way. The view
// must have no edges that replace, and no states.
func checkTrace(t rapid.TB, v graphview.View) bool {
	t.Helper()
	text := graphview.Text(v, graphview.TextOptions{Width: 300})
	if !strings.Contains(text, "╭") {
		return false
	}
	want := map[string]bool{}
	for _, e := range v.Edges {
		want[fmt.Sprint(titleOf(v.Nodes[e.From]), heads[e.State], titleOf(v.Nodes[e.To]))] = true
	}
	r := reader{rows: rows(text), read: map[string]bool{}}
	r.readAll()
	for edge := range want {
		if !r.read[edge] {
			t.Fatalf("edge %s is not drawn:\n%s", edge, text)
		}
	}
	for edge := range r.read {
		if !want[edge] {
			t.Fatalf("the drawing shows %s, which is no edge:\n%s", edge, text)
		}
	}
	return true
}

func titleOf(n graphview.Node) string { return cmp.Or(n.Label, n.ID) }

var heads = []string{"▼", "▽", "◇"} // by edge state

func smallGraph(t *rapid.T) graphview.View {
	v := graphview.View{}
	n := rapid.IntRange(1, 10).Draw(t, "nodes")
	density := rapid.IntRange(1, 6).Draw(t, "one edge in")
	for i := range n {
		v.Nodes = append(v.Nodes, graphview.Node{ID: fmt.Sprintf("n%d", i), Kind: graphview.Step})
		if rapid.Bool().Draw(t, "foreach") {
			v.Nodes[i].Kind = graphview.Foreach
		}
		if rapid.Bool().Draw(t, "badge") {
			v.Nodes[i].Badges = []string{"some badge"}
		}
		for from := range i {
			if rapid.IntRange(0, density).Draw(t, "edge") == 0 {
				state := dagrun.EdgeState(max(0, rapid.IntRange(-4, 2).Draw(t, "state")))
				v.Edges = append(v.Edges, graphview.Edge{From: from, To: i, State: state})
			}
		}
	}
	return v
}

// reader reads a drawing without knowledge of its layout.
type reader struct {
	rows [][]rune
	read map[string]bool
	seen map[[4]int]bool
}

func rows(text string) [][]rune {
	var out [][]rune
	for _, l := range strings.Split(text, "\n") {
		out = append(out, []rune(l))
	}
	return out
}

func (r *reader) at(x, y int) rune {
	if y < 0 || y >= len(r.rows) || x < 0 || x >= len(r.rows[y]) {
		return ' '
	}
	return r.rows[y][x]
}

// readAll follows every port: a ┬ in the lower border of a box.
func (r *reader) readAll() {
	for y := range r.rows {
		for x, c := range r.rows[y] {
			if c != '┬' {
				continue
			}
			if from := r.boxAbove(x, y); from != "" {
				r.seen = map[[4]int]bool{}
				r.follow(from, x, y+1, 0, 1)
			}
		}
	}
}

// boxAbove returns the name in the box with a lower border that has a port at x, y. It returns "" if the ┬ there is no
// border of a box.
func (r *reader) boxAbove(x, y int) string {
	for strings.ContainsRune("─┬", r.at(x, y)) {
		x--
	}
	if r.at(x, y) != '╰' {
		return ""
	}
	for y--; r.at(x, y) == '│'; y-- {
	}
	if r.at(x, y) != '╭' {
		return ""
	}
	right := x + 1
	for strings.ContainsRune("─▼▽◇", r.at(right, y)) {
		right++
	}
	if r.at(right, y) != '╮' {
		return ""
	}
	return r.name(x, y)
}

// name returns the first line of the box with that corner.
func (r *reader) name(x, y int) string {
	name := ""
	for x++; r.at(x, y+1) != '│' && x < len(r.rows[y+1]); x++ {
		name += string(r.at(x, y+1))
	}
	return strings.TrimSpace(name)
}

const crossable = "│╎┊"

// exits are the ways out of a junction, as dx dy, without the way up.
var exits = map[rune][][2]int{
	'╰': {{1, 0}}, '╯': {{-1, 0}}, '╭': {{0, 1}, {1, 0}}, '╮': {{0, 1}, {-1, 0}},
	'├': {{1, 0}, {0, 1}}, '┤': {{-1, 0}, {0, 1}}, '┬': {{1, 0}, {-1, 0}, {0, 1}}, '┴': {{1, 0}, {-1, 0}},
	'┼': {{1, 0}, {-1, 0}, {0, 1}},
}

func (r *reader) follow(from string, x, y, dx, dy int) {
	key := [4]int{x, y, dx, dy}
	if r.seen[key] {
		return
	}
	r.seen[key] = true
	c := r.at(x, y)
	switch {
	case dy == 1 && slices.Contains(heads, string(c)):
		l := x
		for r.at(l, y) != '╭' {
			l--
		}
		r.read[from+string(c)+r.name(l, y)] = true
	case strings.ContainsRune(crossable, c) || strings.ContainsRune("─╌┈", c) && dy == 0:
		r.follow(from, x+dx, y+dy, dx, dy)
	default:
		for _, d := range exits[c] {
			if d[0] != -dx || d[1] != -dy {
				r.follow(from, x+d[0], y+d[1], d[0], d[1])
			}
		}
	}
}
