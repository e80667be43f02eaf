package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newDAGShowCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show a registered DAG: what it takes, what it does",
		ArgsUsage: "DAG|FILE",
		Flags: []cli.Flag{
			versionFlag(),
			&cli.BoolFlag{Name: "source", Usage: "print the file that was applied, as it was, and nothing else"},
			&cli.IntFlag{Name: "next", Usage: "list `N` next times of each schedule; of a FILE, without a database"},
		},
		Description: manual{
			about: `Shows one version of a DAG, by default the current one: params, schedules, steps, limits, where it came from. For
readers (role oarlock_read). With --next it lists the next times of its schedules and nothing else, and takes a file,
too, or standard input for "-": then it needs no database.`,
			examples: []string{
				"oarlock dag show etl",
				"oarlock dag show etl --version 2 --source > etl-2.yaml",
				"oarlock dag show etl -o json | jq .spec.params",
				"oarlock dag show etl.yaml --next 5    # when would it run?",
			},
			exits: dagReadExits,
		}.String(),
		Action: func(c *cli.Context) error {
			if c.IsSet("next") {
				return runDAGNext(c.Context, e, c.Args().Slice(), c.Int("next"))
			}
			return runDAGShow(c.Context, e, c.Args().Slice(), c.Int("version"), c.Bool("source"))
		},
	}
}

type jsonDAGVersion struct {
	runview.DAGJSON

	Current    int             `json:"current"`
	SourcePath *string         `json:"source_path"`
	Hash       string          `json:"hash"`
	Needs      []string        `json:"needs"`
	Spec       json.RawMessage `json:"spec"`
	Source     string          `json:"source"`
	Schedules  []jsonNext      `json:"schedules"` // schedules of its file, as they are now
}

func runDAGShow(ctx context.Context, e *env, args []string, version int, source bool) error {
	name, err := oneDAG("dag show", args)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		v, spec, err := getDAG(ctx, store, name, version)
		if err != nil {
			return err
		}
		if source {
			return e.print(e.asSource(v.Source))
		}
		coming, err := nextOfFile(ctx, store, &dagFile{spec: spec})
		if err != nil {
			return err
		}
		object := jsonDAGVersion{runview.NewDAGJSON(&v.DAG), v.Current, runview.TextOrNull(v.SourcePath), v.Hash, v.Needs, v.Spec, v.Source, coming}
		return e.say(answer{object: object, ids: []string{v.Name}, text: e.stdoutPaint().dagSheet(v, spec, coming, e.pageColumns())})
	})
}

// asSource returns a file unchanged; for a terminal it takes out control sequences.
func (e *env) asSource(text string) string {
	if !e.StdoutTTY {
		return text
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = harmless(lines[i], false)
	}
	return strings.Join(lines, "\n")
}

func getDAG(ctx context.Context, store *queue.Store, name string, version int) (*queue.DAGVersion, *dagspec.Spec, error) {
	v, err := store.GetDAG(ctx, name, version)
	if err != nil && version != 0 {
		if _, e := store.GetDAG(ctx, name, 0); e == nil {
			return nil, nil, &failure{
				kind: notFound, err: fmt.Errorf("dag %q has no version %d", name, version),
				hint: fmt.Sprintf("`oarlock dag versions %s` lists them", name),
			}
		}
	}
	if err != nil {
		return nil, nil, orNoDAG(ctx, store, name, err)
	}
	spec, err := dagspec.FromJSON(v.Spec)
	if err != nil {
		return nil, nil, fmt.Errorf("dag %s version %d: %w", name, v.Version, err)
	}
	return v, spec, nil
}

// dagSheet describes a DAG on a page.
func (p painter) dagSheet(v *queue.DAGVersion, spec *dagspec.Spec, coming []jsonNext, columns int) string {
	title := fmt.Sprintf("%s %s  %s", p.bold(v.Name), p.dim("version "+strconv.Itoa(v.Version)), p.dagState(&v.DAG))
	if v.Version != v.Current {
		title += p.dim(fmt.Sprintf("  (current: %d)", v.Current))
	}
	sections := []string{title + "\n"}
	if spec.Description != "" {
		sections[0] += runview.Printable(spec.Description) + "\n"
	}
	sections = append(sections, p.dagFacts(v, spec))
	if len(spec.ParamDefs) > 0 {
		sections = append(sections, p.paramTable(spec.ParamDefs))
	}
	if len(coming) > 0 {
		text := p.dim("SCHEDULES") + "\n"
		for _, s := range coming {
			text += s.says + "\n"
		}
		sections = append(sections, text)
	}
	sections = append(sections, p.stepTable(spec))
	for i := range spec.Steps {
		if a := spec.Steps[i].Approval(); a != nil {
			sections = append(sections, p.approvalSheet(spec.Steps[i].ID, a, columns))
		}
	}
	return strings.Join(sections, "\n")
}

// dagFacts lists the properties of a DAG that are set.
func (p painter) dagFacts(v *queue.DAGVersion, spec *dagspec.Spec) string {
	var rows [][]string
	fact := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{p.dim(name), value})
		}
	}
	fact("queue", runview.Printable(spec.Queue))
	fact("priority", nonZero(spec.Priority))
	fact("labels", runview.LabelText(spec.Labels))
	fact("selector", runview.LabelText(spec.WorkerSelector))
	fact("max runs", nonZero(spec.MaxActiveRuns))
	fact("max steps", nonZero(spec.MaxActiveSteps))
	fact("timeout", durationText(spec.Timeout))
	fact("queue timeout", durationText(spec.QueueTimeout))
	fact("needs", runview.Printable(strings.Join(v.Needs, ", ")))
	fact("applied", runview.LocalTime(v.PutAt)+" by "+runview.InlineText(v.PutBy))
	fact("from", runview.InlineText(v.SourcePath))
	return alignRows(rows)
}

func nonZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func durationText(d dagspec.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func (p painter) paramTable(params []dagspec.Param) string {
	t := table{head: p.head("PARAM", "TYPE", "DEFAULT", "")}
	for i := range params {
		param := &params[i]
		fallback := p.dim("–")
		switch {
		case param.Required:
			fallback = p.warn("required")
		case param.Default != nil:
			fallback = runview.Printable(runview.CompactJSON(param.Default))
		}
		t.rows = append(t.rows, []string{param.Name, param.Type, fallback, p.dim(runview.Printable(param.Description))})
	}
	return t.String()
}

func (p painter) stepTable(spec *dagspec.Spec) string {
	t := table{head: p.head("STEP", "DOES", "AFTER")}
	for i := range spec.Steps {
		s := &spec.Steps[i]
		var after []string
		for _, d := range s.Depends {
			after = append(after, d.Step)
		}
		t.rows = append(t.rows, []string{s.ID, bodyText(s), p.dim(cmp.Or(strings.Join(after, ", "), "–"))})
	}
	return t.String()
}

// approvalSheet describes an approval: its prompt, with references as they are written, and its inputs.
func (p painter) approvalSheet(step string, a *dagspec.Approval, columns int) string {
	q := &queue.Question{Prompt: a.Prompt, Inputs: make([]queue.Input, len(a.Inputs))}
	for i, in := range a.Inputs {
		q.Inputs[i] = queue.Input(in)
	}
	text := p.dim("approval ") + step + p.dim(", decided by ") + runview.Deciders(a.Approvers, "") + "\n"
	for _, line := range runview.QuestionLines(q) {
		text += fold(p.dim(questionMark)+line, columns, width(questionMark)) + "\n"
	}
	return text
}

// bodyText describes in a word or two what a step executes.
func bodyText(s *dagspec.Step) string {
	text := "shell script"
	switch {
	case s.Command != "":
		text = "command " + runview.Printable(s.Command)
	case s.Action != "":
		text = s.Action
	case s.Result != nil:
		text = "precomputed result"
	}
	if s.Foreach != nil {
		text += ", for each item"
	}
	return text
}
