package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// dagData is the content of the page of a DAG, and of the page of one version.
type dagData struct {
	*queue.DAGVersion

	Description string

	Path  string
	Strip strip
	Graph template.HTML // "": too many steps to draw
	Steps int
	// Step is the step that the page shows the definition of, "" for none.
	Step     string
	Defined  string
	Params   []paramRow
	Versions []versionRow
	Rights   queue.Rights
	Command  string

	Changes  []string // of a version: changes from the version before
	Before   int      // number of the version before; 0: there is none
	ListDiff string   // path of the diff between the two versions
}

// Enqueue returns the command that makes a run; "" for a DAG that was removed.
func (d *dagData) Enqueue() string {
	if !d.RemovedAt.IsZero() {
		return ""
	}
	return runview.EnqueueCommand(&queue.Request{DAG: d.Name}, nil)
}

// paramRow is a param, with its default and bounds as text.
type paramRow struct {
	dagspec.Param

	Usual  string // the default; "": there is none
	Bounds string // the other constraints on a value, in words
}

type versionRow struct {
	*queue.DAG

	Path, Diff string // Diff is the path of the diff to the version before; "": this is the first version
}

// dag shows a DAG: its current version, its newest runs as a strip, and links to all versions. With a step in the query, it also
// shows the definition of that step.
func (s *server) dag(w http.ResponseWriter, r *http.Request) error {
	data, err := s.readDAG(r.Context(), r.PathValue("dag"), 0)
	if err != nil {
		return err
	}
	if err := s.describe(data, r.URL.Query().Get("step")); err != nil {
		return err
	}
	data.Rights = s.rights(r.Context())
	history, err := s.store.DAGHistory(r.Context(), data.Name)
	if err != nil {
		return err
	}
	for i := range history {
		data.Versions = append(data.Versions, versionRowOf(&history[i]))
	}
	strips, err := s.store.Strips(r.Context(), []string{data.Name}, pageStrip)
	if err != nil {
		return err
	}
	data.Strip = s.stripOf(strips[data.Name])
	return s.render(w, r, "dag.html", page{Title: data.Name, Nav: "dags", Data: data, Crumbs: []crumb{{"DAGs", "/dags"}, {data.Name, ""}}})
}

func versionRowOf(d *queue.DAG) versionRow {
	row := versionRow{DAG: d, Path: versionPath(d.Name, d.Version)}
	if d.Version > 1 {
		row.Diff = diffPath(d.Name, d.Version-1, d.Version)
	}
	return row
}

func versionPath(dag string, version int) string {
	return dagPath(dag) + "/versions/" + strconv.Itoa(version)
}

func diffPath(dag string, from, to int) string {
	return fmt.Sprintf("%s/diff/%d..%d", dagPath(dag), from, to)
}

// readDAG reads a version of a DAG; version 0 is the current one. The result has none of the content of the definition, which
// describe adds.
func (s *server) readDAG(ctx context.Context, name string, version int) (*dagData, error) {
	stored, err := s.store.GetDAG(ctx, name, version)
	if err != nil {
		return nil, err
	}
	return &dagData{DAGVersion: stored, Path: dagPath(name), Command: "oarlock dag show " + runview.ShellWord(name)}, nil
}

// describe adds the content of the definition to data: description, params, graph, and the JSON of one step. There is no JSON if
// step is "" or the definition has no such step. There is no graph if it has more than maxCards nodes after folding.
func (s *server) describe(data *dagData, step string) error {
	def, err := definitionIn(data.DAGVersion)
	if err != nil {
		return err
	}
	data.Steps, data.Step = def.Graph.Len(), step
	if named := def.Spec.Named(step); named != nil {
		if data.Defined, err = indented(named); err != nil {
			return err
		}
	}
	view := graphview.FromSpec(def.Spec, def.Graph)
	view.Name = ""
	if len(graphview.Fold(view, graphFold).Nodes) <= maxCards {
		data.Graph = drawn(graphview.Fragment(view, func(n graphview.Node) (string, bool) {
			href, err := s.below(data.Path, "step", n.ID)
			if err != nil {
				return s.options.Base + data.Path, false
			}
			return href, n.ID == step
		}))
	}
	data.Description = def.Spec.Description
	for i := range def.Spec.ParamDefs {
		data.Params = append(data.Params, paramRowOf(&def.Spec.ParamDefs[i]))
	}
	return nil
}

const graphFold = 8 // a graph keeps this many like tasks, and folds them if there are more

func definitionIn(stored *queue.DAGVersion) (*queue.Definition, error) {
	spec, err := dagspec.FromJSON(stored.Spec)
	if err != nil {
		return nil, fmt.Errorf("read version %d of DAG %s: %w", stored.Version, stored.Name, err)
	}
	graph, err := spec.Graph()
	if err != nil {
		return nil, fmt.Errorf("graph of version %d of DAG %s: %w", stored.Version, stored.Name, err)
	}
	return &queue.Definition{Spec: spec, Graph: graph}, nil
}

func paramRowOf(p *dagspec.Param) paramRow {
	row := paramRow{Param: *p}
	if p.Default != nil {
		row.Usual = runview.CompactJSON(p.Default)
	}
	bounds := runview.ParamLimits(p)
	if len(p.Enum) > 0 {
		bounds = append([]string{"one of " + runview.CompactJSON(p.Enum)}, bounds...)
	}
	row.Bounds = strings.Join(bounds, ", ")
	return row
}

// dagVersion shows one version of a DAG, with the changes from the version before.
func (s *server) dagVersion(w http.ResponseWriter, r *http.Request) error {
	number, err := versionNumber(r.PathValue("version"))
	if err != nil {
		return err
	}
	data, err := s.readDAG(r.Context(), r.PathValue("dag"), number)
	if err != nil {
		return err
	}
	data.Command += " --version " + strconv.Itoa(number)
	if number > 1 {
		if err := s.compareBefore(r.Context(), data); err != nil {
			return err
		}
	}
	return s.render(w, r, "dag_version.html", page{
		Title: fmt.Sprintf("%s version %d", data.Name, number), Nav: "dags", Data: data,
		Crumbs: []crumb{{"DAGs", "/dags"}, {data.Name, data.Path}, {fmt.Sprintf("version %d", number), ""}},
	})
}

func versionNumber(text string) (int, error) {
	number, err := strconv.ParseUint(text, 10, 31)
	if err != nil || number == 0 {
		return 0, badQuery("version", text)
	}
	return int(number), nil
}

// compareBefore sets data.Changes to the differences from the version before, data.Before to the number of that version, and
// data.ListDiff to the path of the diff. If that version has been deleted, it leaves all three empty. The caller calls it only for
// versions after the first.
func (s *server) compareBefore(ctx context.Context, data *dagData) error {
	before, err := s.store.GetDAG(ctx, data.Name, data.Version-1)
	if errors.Is(err, queue.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	data.Before, data.ListDiff = before.Version, diffPath(data.Name, before.Version, data.Version)
	data.Changes, err = changesBetween(before, data.DAGVersion)
	return err
}

// diffData is the content of the page that compares two versions.
type diffData struct {
	Name     string
	From, To *queue.DAGVersion
	Changes  []string
	Lines    []diffLine
	Paths    [2]string // of the pages of both versions
}

// diffLine is a line of a unified diff. Class marks an added line, a removed line, or the beginning of a hunk.
type diffLine struct{ Class, Text string }

// dagDiff shows how two versions differ: as a list of changes, and as a diff of the source.
func (s *server) dagDiff(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("dag")
	first, second, _ := strings.Cut(r.PathValue("range"), "..")
	from, err := versionNumber(first)
	if err != nil {
		return err
	}
	to, err := versionNumber(second)
	if err != nil {
		return err
	}
	d := &diffData{Name: name, Paths: [2]string{versionPath(name, from), versionPath(name, to)}}
	if d.From, err = s.store.GetDAG(r.Context(), name, from); err == nil {
		d.To, err = s.store.GetDAG(r.Context(), name, to)
	}
	if err != nil {
		return err
	}
	if d.Changes, err = changesBetween(d.From, d.To); err != nil {
		return err
	}
	d.Lines = linesOf(diff.Diff(fmt.Sprintf("version %d", from), []byte(d.From.Source), fmt.Sprintf("version %d", to), []byte(d.To.Source)))
	return s.render(w, r, "dag_diff.html", page{
		Title: fmt.Sprintf("%s %d..%d", name, from, to), Nav: "dags", Data: d,
		Crumbs: []crumb{{"DAGs", "/dags"}, {name, dagPath(name)}, {fmt.Sprintf("%d..%d", from, to), ""}},
	})
}

// linesOf returns the lines of a unified diff from the first hunk on. The lines above it name files, and are left out.
func linesOf(unified []byte) (lines []diffLine) {
	begun := false
	for line := range strings.SplitSeq(strings.TrimSuffix(string(unified), "\n"), "\n") {
		class := ""
		switch {
		case strings.HasPrefix(line, "@"):
			begun, class = true, "d-at"
		case strings.HasPrefix(line, "+"):
			class = "d-add"
		case strings.HasPrefix(line, "-"):
			class = "d-del"
		}
		if begun {
			lines = append(lines, diffLine{class, line})
		}
	}
	return lines
}

// changesBetween lists the changes from version a to version b, one text for each part: each step, each param, and the DAG for the
// rest. The text is like "step load is gone", "step load is new", or "param day: default, pattern" with the keys that have
// other values.
func changesBetween(a, b *queue.DAGVersion) ([]string, error) {
	before, err := partsOf(a)
	if err != nil {
		return nil, err
	}
	after, err := partsOf(b)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range before.names {
		if _, ok := after.parts[name]; !ok {
			all = append(all, name+" is gone")
		}
	}
	for _, name := range after.names {
		was, ok := before.parts[name]
		if !ok {
			all = append(all, name+" is new")
			continue
		}
		var keys []string
		for _, key := range after.keys(name, was) {
			if string(was[key]) != string(after.parts[name][key]) {
				keys = append(keys, key)
			}
		}
		if len(keys) > 0 {
			all = append(all, name+": "+strings.Join(keys, ", "))
		}
	}
	return all, nil
}

// specParts is a definition by part. The names are like "step load", "param day" and "the DAG" for all other keys.
type specParts struct {
	names []string
	parts map[string]map[string]json.RawMessage
}

// partsOf splits a definition into its params and steps, each under its name, and the rest, under "the DAG".
func partsOf(v *queue.DAGVersion) (*specParts, error) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(v.Spec, &whole); err != nil {
		return nil, fmt.Errorf("read version %d of DAG %s: %w", v.Version, v.Name, err)
	}
	p := &specParts{parts: map[string]map[string]json.RawMessage{}}
	for _, of := range []struct{ key, word, name string }{{"params", "param", "name"}, {"steps", "step", "id"}} {
		var listed []map[string]json.RawMessage
		if raw := whole[of.key]; len(raw) > 0 {
			if err := json.Unmarshal(raw, &listed); err != nil {
				return nil, fmt.Errorf("read the %s of version %d of DAG %s: %w", of.key, v.Version, v.Name, err)
			}
		}
		delete(whole, of.key)
		for _, part := range listed {
			var name string
			if err := json.Unmarshal(part[of.name], &name); err != nil {
				return nil, fmt.Errorf("read the %s of version %d of DAG %s: %w", of.key, v.Version, v.Name, err)
			}
			p.add(of.word+" "+runview.InlineText(name), part)
		}
	}
	p.add("the DAG", whole)
	return p, nil
}

func (p *specParts) add(name string, part map[string]json.RawMessage) {
	p.names = append(p.names, name)
	p.parts[name] = part
}

// keys returns the sorted keys that occur in the part called name, or in was, the former value of that part.
func (p *specParts) keys(name string, was map[string]json.RawMessage) []string {
	all := maps.Clone(was)
	maps.Copy(all, p.parts[name])
	return slices.Sorted(maps.Keys(all))
}

// pauseDAG makes a DAG start no runs, and resumeDAG lets it start runs again. Both redirect to the page of the DAG.
func (s *server) pauseDAG(r *http.Request) (answer, error)  { return s.setDAGPaused(r, true) }
func (s *server) resumeDAG(r *http.Request) (answer, error) { return s.setDAGPaused(r, false) }

func (s *server) setDAGPaused(r *http.Request, paused bool) (answer, error) {
	name := r.PathValue("dag")
	if err := s.store.SetDAG(r.Context(), queue.DAGChange{Name: name, Paused: &paused}); err != nil {
		return answer{}, err
	}
	return answer{To: dagPath(name)}, nil
}

// dagOfForm redirects a GET on the address of a form to the page of the DAG. Browsers send one when the user reloads an error page.
func (s *server) dagOfForm(w http.ResponseWriter, r *http.Request) error {
	s.redirect(w, r, dagPath(r.PathValue("dag")))
	return nil
}
