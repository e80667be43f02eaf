package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// graphFormats are the values of -o that dag graph allows.
var graphFormats = []string{"text", "ascii", "dot", "mermaid", "svg", "json", "jsonl"}

// unfolded is more columns than any graph needs, so nothing is folded.
const unfolded = 1_000_000

func newDAGGraphCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "graph",
		Usage:     "draw a DAG",
		ArgsUsage: "FILE|DAG",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "draw as `FORMAT`: " + config.OrList(graphFormats), DefaultText: "text"},
			versionFlag(),
			&cli.IntFlag{Name: "width", Usage: "draw text `N` columns wide", DefaultText: "the terminal's width, or 80"},
			&cli.BoolFlag{Name: "all", Usage: "draw text wide enough to show every step"},
		},
		Description: manual{
			about: `Draws a file or a registered DAG. An argument that has a slash or ends in .yaml, .yml or .json is a file; "-" is
standard input. A file needs no database. The format text is as wide as the terminal, and leaves out steps that do
not fit. Give --all to draw everything, for a pager that scrolls sideways. The format ascii draws like text, with ASCII
characters only.`,
			examples: []string{
				"oarlock dag graph etl.yaml",
				"oarlock dag graph etl -o svg > etl.svg",
				"oarlock dag graph etl -o dot | dot -Tpng > etl.png",
			},
			exits: []exitNote{
				{exitOK, "the graph was drawn"},
				deniedNote, usageNote,
				{exitNotFound, "the file, DAG or version does not exist"},
				unreachableNote,
				{exitInvalid, "the file is invalid, or a setting is wrong"},
			},
		}.String(),
		Action: func(c *cli.Context) error {
			switch width := c.Int("width"); {
			case c.IsSet("width") && c.Bool("all"):
				return &usageError{msg: "--width and --all exclude each other", hint: "give --width or --all"}
			case c.IsSet("width") && width < 1:
				return &usageError{msg: "--width must be a whole number, at least 1"}
			case c.IsSet("width"):
				e.Columns = width
			case c.Bool("all"):
				e.Columns = unfolded
			}
			return runDAGGraph(c.Context, e, c.Args().Slice(), c.String("output"), c.Int("version"))
		},
	}
}

func versionFlag() cli.Flag {
	return &cli.IntFlag{Name: "version", Usage: "take this `VERSION` instead of the current version"}
}

func runDAGGraph(ctx context.Context, e *env, args []string, format string, version int) error {
	name, err := oneDAG("dag graph", args)
	if err != nil {
		return err
	}
	if format, err = e.graphFormat(format); err != nil {
		return err
	}
	var view graphview.View
	if isDAGFile(name) {
		if version != 0 {
			return &usageError{msg: "a file has no --version", hint: "leave out --version, or name a registered DAG"}
		}
		view, err = e.viewOfFile(name)
	} else {
		view, err = e.viewOfDAG(ctx, name, version)
	}
	if err != nil {
		return err
	}
	return e.draw(view, format)
}

// graphFormat returns the format in which to draw. given is the value of -o, "" if the user did not type it; then json and jsonl
// from other sources of settings count, and otherwise text. It returns a usageError for a format that a graph does not have.
func (e *env) graphFormat(given string) (string, error) {
	switch {
	case given == "" && isJSON(e.settings.Text("output")):
		return e.settings.Text("output"), nil
	case given == "" || given == "table":
		return "text", nil
	case !slices.Contains(graphFormats, given):
		hint := config.DidYouMean(given, graphFormats)
		return "", &usageError{msg: fmt.Sprintf("--output: %q must be %s", given, config.OrList(graphFormats)), hint: hint}
	}
	return given, nil
}

func isDAGFile(name string) bool {
	return name == stdinWord || strings.ContainsRune(name, '/') || hasDAGExtension(name)
}

func (e *env) viewOfFile(name string) (graphview.View, error) {
	f, err := e.readDAG(name)
	if err != nil {
		return graphview.View{}, err
	}
	files := []*dagFile{f}
	if failed := invalidFiles(files); failed != nil {
		return graphview.View{}, e.reportInvalid(files, failed)
	}
	return graphview.FromSpec(f.spec, f.graph), nil
}

func (e *env) viewOfDAG(ctx context.Context, name string, version int) (view graphview.View, err error) {
	return view, e.withStore(ctx, func(store *queue.Store) error {
		stored, spec, err := getDAG(ctx, store, name, version)
		if err != nil {
			return err
		}
		graph, err := spec.Graph()
		if err != nil {
			return fmt.Errorf("graph of dag %s version %d: %w", name, stored.Version, err)
		}
		view = graphview.FromSpec(spec, graph)
		return nil
	})
}

func (e *env) draw(view graphview.View, format string) error {
	switch format {
	case "dot":
		return e.print(graphview.DOT(view))
	case "mermaid":
		return e.print(graphview.Mermaid(view))
	case "svg":
		return e.print(graphview.SVG(view))
	case "json", "jsonl":
		return e.sayAs(format, answer{object: graphJSON(view)})
	}
	return e.print(graphview.Text(view, graphview.TextOptions{
		Width: e.Columns, Colour: bool(e.stdoutPaint().Painter), ASCII: format == "ascii",
	}))
}

type jsonGraph struct {
	Name  string          `json:"name"`
	Nodes []jsonGraphNode `json:"nodes"`
	Edges []jsonGraphEdge `json:"edges"`
}

type jsonGraphNode struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Kind  string `json:"kind"` // step, foreach or handler
}

type jsonGraphEdge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	State string `json:"state"` // succeeded, finished or started
}

func graphJSON(view graphview.View) jsonGraph {
	g := jsonGraph{Name: view.Name, Nodes: []jsonGraphNode{}, Edges: []jsonGraphEdge{}}
	for _, n := range view.Nodes {
		g.Nodes = append(g.Nodes, jsonGraphNode{n.ID, n.Label, string(n.Kind)})
	}
	for _, edge := range view.Edges {
		g.Edges = append(g.Edges, jsonGraphEdge{view.Nodes[edge.From].ID, view.Nodes[edge.To].ID, edge.State.String()})
	}
	return g
}

// jsonTimes is a schedule as `dag show --next` prints it.
type jsonTimes struct {
	Name     string      `json:"name"`
	Timing   string      `json:"timing"`
	Timezone string      `json:"timezone"`
	Next     []time.Time `json:"next"`
}

// runDAGNext prints the next n times of each schedule of a DAG or of a file. For a file it does not ask the database.
func runDAGNext(ctx context.Context, e *env, args []string, n int) error {
	name, err := oneDAG("dag show", args)
	if err != nil {
		return err
	}
	if n < 1 || n > timesMax {
		return &usageError{msg: fmt.Sprintf("--next is from 1 to %d, not %d", timesMax, n)}
	}
	if name == stdinWord || hasDAGExtension(name) || strings.Contains(name, "/") {
		return e.fileNext(name, n)
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		_, spec, err := getDAG(ctx, store, name, 0)
		if err != nil {
			return err
		}
		schedules, err := store.Schedules(ctx, queue.ScheduleFilter{DAG: spec.Name, OfFile: true, Limit: queue.MaxPage})
		if err != nil {
			return err
		}
		listed := make([]jsonTimes, len(schedules))
		for i := range schedules {
			times, err := store.FireTimes(ctx, schedules[i].Key(), n)
			if err != nil {
				return err
			}
			listed[i] = timesJSON(&schedules[i].Schedule, times)
		}
		return e.sayTimes(spec.Name, listed)
	})
}

func (e *env) fileNext(name string, n int) error {
	file, err := e.readDAG(name)
	if err != nil {
		return err
	}
	if failed := invalidFiles([]*dagFile{file}); failed != nil {
		return e.reportInvalid([]*dagFile{file}, failed)
	}
	listed := []jsonTimes{}
	for i := range file.spec.Schedule {
		if s := &file.spec.Schedule[i]; s.Enabled {
			listed = append(listed, timesJSON(s, previewTimes(s, time.Now(), n)))
		}
	}
	return e.sayTimes(file.name, listed)
}

func timesJSON(s *dagspec.Schedule, times []time.Time) jsonTimes {
	j := jsonTimes{s.Name, runview.TimingText(s), s.Timezone, []time.Time{}}
	for _, t := range times {
		j.Next = append(j.Next, t.UTC())
	}
	return j
}

func (e *env) sayTimes(of string, listed []jsonTimes) error {
	paint, now := e.stdoutPaint(), time.Now()
	a := answer{object: listed, lines: []any{}}
	if len(listed) == 0 {
		e.remark("%s has no schedule", of)
	}
	for i, s := range listed {
		a.lines = append(a.lines, s)
		if i > 0 {
			a.text += "\n"
		}
		a.text += paint.Bold(runview.InlineText(s.Name)) + "\n" + paint.comingTimes(s.Next, s.Timezone, now)
	}
	return e.say(a)
}
