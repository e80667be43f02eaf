package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newDAGCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "dag",
		Usage: "check, draw and register DAG files, and list registered DAGs",
		Description: manual{
			about: `A DAG is a YAML or JSON file. "validate", "graph" and "schema" read files and need no database. "apply" registers a
file as the next version of its DAG; after that, "oarlock enqueue" asks for runs of the DAG.`,
			examples: []string{
				"oarlock dag validate etl.yaml    # report every problem at once",
				"oarlock dag graph etl.yaml       # draw the DAG",
				"oarlock dag apply etl.yaml       # register the DAG",
				"oarlock dag list                 # list the registered DAGs",
			},
			exits: dagExits,
		}.String(),
		Subcommands: []*cli.Command{
			newDAGApplyCommand(e),
			newDAGValidateCommand(e),
			newDAGListCommand(e),
			newDAGShowCommand(e),
			newDAGGraphCommand(e),
			newDAGSchemaCommand(e),
			newDAGVersionsCommand(e),
			newDAGPauseCommand(e),
			newDAGResumeCommand(e),
			newDAGRemoveCommand(e),
			newDAGRetireCommand(e),
		},
	}
}

var dagExits = []exitNote{
	{exitOK, "the command succeeded"},
	deniedNote,
	usageNote,
	{exitNotFound, "the file, DAG or version does not exist"},
	unreachableNote,
	{exitInvalid, "a file is invalid, or a setting is wrong"},
}

// dagState returns the state of a DAG in a word: active, paused or removed.
func dagState(d *queue.DAG) string {
	switch {
	case !d.RemovedAt.IsZero():
		return "removed"
	case d.PausedBy != "":
		return "paused"
	}
	return "active"
}

func (p painter) dagState(d *queue.DAG) string {
	switch state := dagState(d); state {
	case "active":
		return p.Good(state)
	case "paused":
		return p.Warn(state) + p.Dim(" by "+runview.Printable(d.PausedBy))
	default:
		return p.Dim(state)
	}
}

// orNoDAG adds to a "not found" error a hint with the DAG that the user may have meant. It returns any other error unchanged.
func orNoDAG(ctx context.Context, store *queue.Store, name string, err error) error {
	if !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	said := diagnose(ctx, err)
	return &failure{kind: notFound, err: errors.New(said.message), hint: cmp.Or(otherDAG(ctx, store, name), said.hint)}
}

// otherDAG returns a hint for a user that named a DAG that does not exist: a similar name, or how to find the name. It returns ""
// for the name of an existing DAG, for example a removed one.
func otherDAG(ctx context.Context, store *queue.Store, name string) string {
	dags, err := store.DAGs(ctx)
	if err != nil && diagnose(ctx, err).kind == denied {
		return "check the name; `oarlock dag list` is for logins with " + toRead + ", and an administrator registers DAGs"
	} else if err != nil {
		return "`oarlock dag list` lists the DAGs"
	}
	var names []string
	for i := range dags {
		names = append(names, dags[i].Name)
	}
	switch {
	case len(names) == 0:
		return "no DAG is registered yet: `oarlock dag apply FILE` registers one"
	case slices.Contains(names, name):
		return ""
	}
	return cmp.Or(config.DidYouMean(name, names), "`oarlock dag list` lists the DAGs")
}

// oneDAG returns the only argument of a command that takes one DAG or file. It returns a usageError if there is not exactly one.
func oneDAG(command string, args []string) (string, error) {
	if len(args) != 1 {
		return "", &usageError{msg: fmt.Sprintf("%s needs one DAG, got %d arguments", command, len(args))}
	}
	return args[0], nil
}

func newDAGListCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list the registered DAGs",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "list also DAGs that were taken out of service"}},
		Description: manual{
			about: `Lists DAGs by name, each with the version that new runs get and the next time of its schedules. For readers (role
oarlock_read).`,
			examples: []string{"oarlock dag list", "oarlock dag list --all -o json", "oarlock dag list -o id"},
			exits:    []exitNote{{exitOK, "the list was read"}, deniedNote, usageNote, unreachableNote, settingsNote},
		}.String(),
		Action: func(c *cli.Context) error { return runDAGList(c.Context, e, c.Bool("all")) },
	}
}

func runDAGList(ctx context.Context, e *env, all bool) error {
	return e.withStore(ctx, func(store *queue.Store) error {
		dags, err := store.DAGs(ctx)
		if err != nil {
			return err
		}
		var listed []queue.DAG
		for i := range dags {
			if all || dags[i].RemovedAt.IsZero() {
				listed = append(listed, dags[i])
			}
		}
		if len(listed) == 0 {
			e.remark("no DAG is registered: `oarlock dag apply FILE` registers one")
		}
		return e.say(e.dagsAnswer(listed))
	})
}

func (e *env) dagsAnswer(dags []queue.DAG) answer {
	paint := e.stdoutPaint()
	now := time.Now()
	object := []runview.ListedDAGJSON{}
	a := answer{lines: []any{}, ids: []string{}}
	t := term.Table{Head: paint.head("NAME", "VERSION", "STATE", "QUEUE", "MAX RUNS", "NEXT", "APPLIED", "BY")}
	for i := range dags {
		d := &dags[i]
		j := runview.NewListedDAGJSON(d)
		object = append(object, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, d.Name)
		t.Rows = append(t.Rows, []string{
			d.Name, strconv.Itoa(d.Version), paint.dagState(d), runview.Printable(d.Queue), paint.limit(d.MaxActive), paint.nextOf(d, now), paint.Dim(runview.LocalTime(d.PutAt)),
			paint.Dim(runview.Printable(d.PutBy)),
		})
	}
	a.object = object
	if len(dags) > 0 {
		a.text = t.String()
	}
	return a
}

// nextOf returns how long it is until the first of a DAG's schedules fires, or a dash if none will fire.
func (p painter) nextOf(d *queue.DAG, now time.Time) string {
	if d.NextAt.IsZero() {
		return p.Dim("–")
	}
	return runview.FromNow(d.NextAt, now)
}

// limit returns a limit as text, or a dash for 0, which means no limit.
func (p painter) limit(n int) string {
	if n == 0 {
		return p.Dim("–")
	}
	return strconv.Itoa(n)
}

func (p painter) head(names ...string) []string {
	for i := range names {
		names[i] = p.Dim(names[i])
	}
	return names
}

// remark prints a line that is not data to standard error, or nothing if the output is for programs, as with -o json.
func (e *env) remark(format string, args ...any) {
	if e.settings.Text("output") == "table" {
		fmt.Fprintf(e.Stderr, format+"\n", args...)
	}
}

func newDAGShowCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show a registered DAG: params, schedules, steps, limits",
		ArgsUsage: "DAG|FILE",
		Flags: []cli.Flag{
			versionFlag(),
			&cli.BoolFlag{Name: "source", Usage: "print only the file, as it was applied"},
			&cli.IntFlag{Name: "next", Usage: "list only the next `N` times of each schedule; a FILE needs no database"},
		},
		Description: manual{
			about: `Shows one version of a DAG, by default the current one: params, schedules, steps, limits, and the path of its file.
With --next the command lists only the next times of the DAG's schedules. With --next you may also name a file, or "-"
for standard input; a file needs no database. For readers (role oarlock_read).`,
			examples: []string{
				"oarlock dag show etl",
				"oarlock dag show etl --version 2 --source > etl-2.yaml",
				"oarlock dag show etl -o json | jq .spec.params",
				"oarlock dag show etl.yaml --next 5    # when would it fire?",
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

// asSource returns the text of a DAG file unchanged, or without control sequences if standard output is a terminal.
func (e *env) asSource(text string) string {
	if !e.StdoutTTY {
		return text
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = term.StripControl(lines[i], false)
	}
	return strings.Join(lines, "\n")
}

func getDAG(ctx context.Context, store *queue.Store, name string, version int) (*queue.DAGVersion, *dagspec.Spec, error) {
	v, err := store.GetDAG(ctx, name, version)
	if err != nil && version != 0 {
		if _, e := store.GetDAG(ctx, name, 0); e == nil {
			return nil, nil, &failure{
				kind: notFound, err: fmt.Errorf("dag %q has no version %d", name, version),
				hint: fmt.Sprintf("`oarlock dag versions %s` lists the versions", name),
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

// dagSheet describes one version of a DAG on a page: its facts, params, schedules, steps and approvals. coming are its schedules,
// and columns is the width to which long lines are folded.
func (p painter) dagSheet(v *queue.DAGVersion, spec *dagspec.Spec, coming []jsonNext, columns int) string {
	title := fmt.Sprintf("%s %s  %s", p.Bold(v.Name), p.Dim("version "+strconv.Itoa(v.Version)), p.dagState(&v.DAG))
	if v.Version != v.Current {
		title += p.Dim(fmt.Sprintf("  (current: %d)", v.Current))
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
		text := p.Dim("SCHEDULES") + "\n"
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

// dagFacts returns a line for each property of the DAG that is set.
func (p painter) dagFacts(v *queue.DAGVersion, spec *dagspec.Spec) string {
	var rows [][]string
	fact := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{p.Dim(name), value})
		}
	}
	fact("queue", runview.Printable(spec.Queue))
	fact("priority", nonZero(spec.Priority))
	fact("labels", runview.LabelText(spec.Labels))
	fact("selector", runview.LabelText(spec.WorkerSelector))
	fact("max runs", nonZero(spec.MaxActiveRuns))
	if l := spec.Concurrency; l != nil {
		fact("limit", runview.Printable(l.String()))
	}
	fact("max steps", quantityText(spec.MaxActiveSteps))
	fact("timeout", quantityText(spec.Timeout))
	fact("queue timeout", durationText(spec.QueueTimeout))
	fact("needs", runview.Printable(strings.Join(v.Needs, ", ")))
	fact("applied", runview.LocalTime(v.PutAt)+" by "+runview.InlineText(v.PutBy))
	fact("from", runview.InlineText(v.SourcePath))
	return term.AlignRows(rows)
}

func nonZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// quantityText returns "" for 0. A quantity that a param gives is shown as the file has it.
func quantityText[T int | dagspec.Duration](q dagspec.Quantity[T]) string {
	if q == (dagspec.Quantity[T]{}) {
		return ""
	}
	return q.String()
}

func durationText(d dagspec.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func (p painter) paramTable(params []dagspec.Param) string {
	t := term.Table{Head: p.head("PARAM", "TYPE", "DEFAULT", "")}
	for i := range params {
		param := &params[i]
		fallback := p.Dim("–")
		switch {
		case param.Required:
			fallback = p.Warn("required")
		case param.Default != nil:
			fallback = runview.Printable(runview.CompactJSON(param.Default))
		}
		t.Rows = append(t.Rows, []string{param.Name, param.Type, fallback, p.Dim(runview.Printable(param.Description))})
	}
	return t.String()
}

func (p painter) stepTable(spec *dagspec.Spec) string {
	t := term.Table{Head: p.head("STEP", "DOES", "AFTER")}
	for i := range spec.Steps {
		s := &spec.Steps[i]
		var after []string
		for _, d := range s.Depends {
			after = append(after, d.Step)
		}
		t.Rows = append(t.Rows, []string{s.ID, bodyText(s), p.Dim(cmp.Or(strings.Join(after, ", "), "–"))})
	}
	return t.String()
}

// approvalSheet describes the approval of a step on some lines: its approvers, its prompt, with references as they are written, and
// its inputs.
func (p painter) approvalSheet(step string, a *dagspec.Approval, columns int) string {
	q := &queue.Question{Prompt: a.Prompt, Inputs: a.Inputs}
	text := p.Dim("approval ") + step + p.Dim(", decided by ") + runview.Deciders(a.Approvers, "") + "\n"
	for _, line := range runview.QuestionLines(q) {
		text += term.Fold(p.Dim(questionMark)+line, columns, term.Width(questionMark)) + "\n"
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

func newDAGVersionsCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "versions",
		Usage:     "list the versions of a DAG, newest first",
		ArgsUsage: "DAG",
		Description: manual{
			about: `A new run gets the newest version, unless the request names another one. A run keeps its version. For readers (role
oarlock_read).`,
			examples: []string{"oarlock dag versions etl", "oarlock dag show etl --version 2 --source"},
			exits:    dagReadExits,
		}.String(),
		Action: func(c *cli.Context) error { return runDAGVersions(c.Context, e, c.Args().Slice()) },
	}
}

var dagReadExits = []exitNote{
	{exitOK, "the schedule was read"}, deniedNote, usageNote, {exitNotFound, "the DAG or the version does not exist"}, unreachableNote, settingsNote,
}

func runDAGVersions(ctx context.Context, e *env, args []string) error {
	name, err := oneDAG("dag versions", args)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		versions, err := store.DAGHistory(ctx, name)
		if err != nil {
			return orNoDAG(ctx, store, name, err)
		}
		return e.say(e.versionsAnswer(versions))
	})
}

func (e *env) versionsAnswer(versions []queue.DAG) answer {
	paint := e.stdoutPaint()
	object := []runview.DAGJSON{}
	a := answer{lines: []any{}, ids: []string{}}
	t := term.Table{Head: paint.head("VERSION", "QUEUE", "APPLIED", "BY", "")}
	for i := range versions {
		v := &versions[i]
		j := runview.NewDAGJSON(v)
		object = append(object, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, strconv.Itoa(v.Version))
		current := ""
		if i == 0 {
			current = paint.Good("current")
		}
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(v.Version), runview.Printable(v.Queue), paint.Dim(runview.LocalTime(v.PutAt)), paint.Dim(runview.Printable(v.PutBy)), current,
		})
	}
	a.object, a.text = object, t.String()
	return a
}

// dagChange has the differences between dag pause, dag resume and dag rm, which are otherwise alike.
type dagChange struct {
	name, done, usage, about string
	paused, removed          *bool
}

func newDAGPauseCommand(e *env) *cli.Command {
	return newDAGChangeCommand(e, dagChange{
		name: "pause", done: "paused", usage: "start no more runs of DAGs",
		about: `You can ask for runs of a paused DAG, but these runs do not start. Runs that have begun go on.
"oarlock dag resume" ends the pause.`,
		paused: new(true),
	})
}

func newDAGResumeCommand(e *env) *cli.Command {
	return newDAGChangeCommand(e, dagChange{
		name: "resume", done: "resumed", usage: "start runs of paused DAGs again",
		about: `Runs that were asked for during the pause start in their order.`, paused: new(false),
	})
}

func newDAGRemoveCommand(e *env) *cli.Command {
	return newDAGChangeCommand(e, dagChange{
		name: "rm", done: "removed", usage: "take DAGs out of service",
		about: `A removed DAG refuses new runs. The runs of the DAG stay, also runs that wait or go on.
"oarlock dag apply" brings the DAG back.`,
		removed: new(true),
	})
}

func newDAGChangeCommand(e *env, change dagChange) *cli.Command {
	return &cli.Command{
		Name:      change.name,
		Usage:     change.usage,
		ArgsUsage: "DAG…",
		Description: manual{
			about:    change.about + "\nFor administrators (role oarlock_admin).",
			examples: []string{"oarlock dag " + change.name + " etl", "oarlock dag " + change.name + " etl nightly -o json"},
			exits: []exitNote{
				inForceNote,
				deniedNote, usageNote,
				{exitNotFound, "a DAG does not exist; the DAGs named before that DAG were changed"},
				unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runDAGChange(c.Context, e, change, c.Args().Slice()) },
	}
}

func runDAGChange(ctx context.Context, e *env, change dagChange, names []string) error {
	if len(names) == 0 {
		return &usageError{msg: "dag " + change.name + " needs a DAG"}
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		for _, name := range names {
			err := store.SetDAG(ctx, queue.DAGChange{Name: name, Paused: change.paused, Removed: change.removed})
			if err != nil {
				return orNoDAG(ctx, store, name, err)
			}
		}
		dags, err := store.DAGs(ctx)
		if err != nil {
			return err
		}
		dags = slices.DeleteFunc(dags, func(d queue.DAG) bool { return !slices.Contains(names, d.Name) })
		a := e.dagsAnswer(dags)
		a.text = ""
		for _, name := range a.ids {
			a.text += fmt.Sprintf("%s %s\n", e.stdoutPaint().Good(change.done), name)
		}
		return e.say(a)
	})
}

func newDAGRetireCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "retire",
		Usage:     "refuse new runs of old versions of a DAG",
		ArgsUsage: "DAG",
		Flags:     []cli.Flag{&cli.IntFlag{Name: "before", Usage: "the oldest version that new runs may have; 1 allows all versions again"}},
		Description: manual{
			about: `Retires the versions before the one that you name. Oarlock makes no more runs of a retired version, and submitters
cannot retry its runs. Runs that have not ended go on. Without --before only the current version stays.
For administrators (role oarlock_admin).`,
			examples: []string{"oarlock dag retire etl", "oarlock dag retire etl --before 7"},
			exits: []exitNote{
				inForceNote,
				deniedNote, usageNote,
				{exitNotFound, "the DAG does not exist"},
				unreachableNote,
				{exitInvalid, "the version does not exist, or a setting is wrong"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runDAGRetire(c.Context, e, c.Int("before"), c.Args().Slice()) },
	}
}

func runDAGRetire(ctx context.Context, e *env, oldest int, args []string) error {
	name, err := oneDAG("dag retire", args)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		if oldest == 0 {
			current, err := store.GetDAG(ctx, name, 0)
			if err != nil {
				return orNoDAG(ctx, store, name, err)
			}
			oldest = current.Current
		}
		if err := store.SetDAG(ctx, queue.DAGChange{Name: name, Oldest: &oldest}); err != nil {
			return orNoDAG(ctx, store, name, err)
		}
		text := fmt.Sprintf("versions of %s before %d are %s\n", name, oldest, e.stdoutPaint().Good("retired"))
		if oldest == 1 {
			text = fmt.Sprintf("all versions of %s may be started\n", name)
		}
		object := jsonRetired{Name: name, Oldest: oldest}
		return e.say(answer{object: object, lines: []any{object}, ids: []string{name}, text: text})
	})
}

type jsonRetired struct {
	Name   string `json:"name"`
	Oldest int    `json:"oldest"`
}
