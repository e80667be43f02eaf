package graphview_test

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/graphview"
)

// Every example must keep the rules for all drawings. The files in testdata show the looks of five graphs.
func TestRenderers_DrawAllExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			v := viewOf(t, file)
			checkAll(t, v)
			checkCards(t, v)
			if !checkTrace(t, v) {
				t.Error("an example became a list")
			}
		})
	}
}

func viewOf(t *testing.T, file string) graphview.View {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := dagspec.Parse(file, src)
	if err != nil {
		t.Fatal(err)
	}
	graph, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return graphview.FromSpec(spec, graph)
}

func TestSVG_CardsStandApartAndLinesReachThem(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { checkCards(t, smallGraph(t)) })
}

// drawing is the part of an SVG that the test looks at.
type drawing struct {
	Cards []struct {
		Class string `xml:"class,attr"`
		Title string `xml:"title"`
		Rects []struct {
			X int `xml:"x,attr"`
			Y int `xml:"y,attr"`
			W int `xml:"width,attr"`
			H int `xml:"height,attr"`
		} `xml:"rect"`
	} `xml:"g"`
	Paths []struct {
		Class string `xml:"class,attr"`
		Title string `xml:"title"` // "" in the legend
		D     string `xml:"d,attr"`
	} `xml:"path"`
}

var (
	pathStart = regexp.MustCompile(`^M(\d+) (\d+)`)
	pathPoint = regexp.MustCompile(`(?:C\d+ \d+ \d+ \d+ (\d+) |V)(\d+)`)
)

// ends returns the first and the last point of a path.
func ends(t rapid.TB, d string) (start, end [2]int) {
	t.Helper()
	first, rest := pathStart.FindStringSubmatch(d), pathPoint.FindAllStringSubmatch(d, -1)
	if first == nil || len(rest) == 0 {
		t.Fatalf("no path: %q", d)
	}
	start[0], _ = strconv.Atoi(first[1])
	start[1], _ = strconv.Atoi(first[2])
	end = start
	for _, p := range rest {
		if p[1] != "" {
			end[0], _ = strconv.Atoi(p[1])
		}
		end[1], _ = strconv.Atoi(p[2])
	}
	return start, end
}

// checkCards checks that no two cards of the picture overlap, that a line enters each card with a parent, and that a line
// leaves each card with a child. A view must have at most eight nodes alike, because more are folded, and each title only
// once.
func checkCards(t rapid.TB, v graphview.View) {
	t.Helper()
	svg := graphview.SVG(v)
	var got drawing
	if err := xml.Unmarshal([]byte(svg), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Cards) != len(v.Nodes) {
		t.Fatalf("%d cards for %d nodes:\n%s", len(got.Cards), len(v.Nodes), svg)
	}
	var starts, stops [][2]int
	for _, p := range got.Paths {
		if p.Title != "" {
			start, end := ends(t, p.D)
			starts, stops = append(starts, start), append(stops, end)
		}
	}
	for i, a := range got.Cards {
		top := a.Rects[len(a.Rects)-1]
		id, _, _ := strings.Cut(a.Title, " · ")
		node := slices.IndexFunc(v.Nodes, func(n graphview.Node) bool { return n.ID == id })
		child := slices.ContainsFunc(v.Edges, func(e graphview.Edge) bool { return e.To == node })
		parent := slices.ContainsFunc(v.Edges, func(e graphview.Edge) bool { return e.From == node })
		within := func(p [2]int, y int) bool { return p[0] > top.X && p[0] < top.X+top.W && p[1] == y }
		if child != slices.ContainsFunc(stops, func(p [2]int) bool { return within(p, top.Y) }) {
			t.Errorf("%s has a parent (%v), or else a line into it:\n%s", id, child, svg)
		}
		if parent != slices.ContainsFunc(starts, func(p [2]int) bool { return within(p, top.Y+top.H) }) {
			t.Errorf("%s has a child (%v), or else a line out of it:\n%s", id, parent, svg)
		}
		for _, b := range got.Cards[:i] {
			if r := b.Rects[len(b.Rects)-1]; r.X < top.X+top.W && top.X < r.X+r.W && r.Y < top.Y+top.H && top.Y < r.Y+r.H {
				t.Errorf("%q covers %q:\n%s", a.Title, b.Title, svg)
			}
		}
	}
}
