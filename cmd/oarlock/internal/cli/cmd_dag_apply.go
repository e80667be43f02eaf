package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/dagrun/schedule"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newDAGApplyCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "register DAG files, each as the next version of its DAG",
		ArgsUsage: "FILE|DIR…",
		Description: manual{
			about: `Takes files, the .yaml, .yml and .json files of folders, and standard input for "-". It checks all files first, and
registers no file if one file is invalid. A file that says the same as the current version changes nothing. Existing
runs keep their version. The schedules of the file replace the schedules of the file before. Applying a file fires
nothing: the command prints when each schedule fires next.
Standard error warns of an action that neither Oarlock nor a live worker offers: runs wait until a worker offers it.
While a worker is live, it also warns of a step with more slots than each worker has, and of secrets with from: command
if no worker has secrets_command. It always warns of an approver that is no role of the database. For administrators
(role oarlock_admin).`,
			examples: []string{
				"oarlock dag apply etl.yaml",
				"oarlock dag apply dags/ -o json | jq -r '.[] | select(.outcome == \"applied\") | .dag'",
				"generate-dag | oarlock dag apply -",
			},
			exits: []exitNote{
				{exitOK, "every file is registered now"},
				deniedNote,
				usageNote,
				{exitNotFound, "a file cannot be read"},
				unreachableNote,
				{exitInvalid, "a file is invalid, or needs a feature that this version lacks; or a setting is wrong"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runDAGApply(c.Context, e, c.Args().Slice()) },
	}
}

type jsonApply struct {
	Path    string `json:"path"`
	DAG     string `json:"dag"`
	Version int    `json:"version"`
	Outcome string `json:"outcome"` // applied, unchanged

	Schedules     []jsonNext `json:"schedules"`      // of the file, as they are after it was applied
	SchedulesGone []string   `json:"schedules_gone"` // schedules that the version before had and this one has not
}

// jsonNext is a schedule with its next fire time.
type jsonNext struct {
	Name     string     `json:"name"`
	PausedBy *string    `json:"paused_by"`
	NextAt   *time.Time `json:"next_at"`   // null: never, it is paused, or it is held back
	HeldFrom *time.Time `json:"held_from"` // null: nothing holds it back

	says string // the schedule and its next fire time, as text for people
}

func runDAGApply(ctx context.Context, e *env, args []string) error {
	if len(args) == 0 {
		return errNoFiles("apply")
	}
	files, err := e.readDAGs(args)
	if err != nil {
		return err
	}
	if failed := invalidFiles(files); failed != nil {
		return e.reportInvalid(files, failed)
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		done, failed := applyAll(ctx, store, files)
		if len(done) == 0 {
			return failed
		}
		e.sayUnoffered(ctx, store, files)
		e.sayMissingApprovers(ctx, store, done)
		return errors.Join(e.say(e.applied(done)), failed)
	})
}

// reportInvalid prints the problems of files for people, and returns failed. With -o json it prints nothing, and returns an error
// that carries the problems.
func (e *env) reportInvalid(files []*dagFile, failed error) error {
	if isJSON(e.settings.Text("output")) {
		return &invalidFilesError{failed, files}
	}
	if _, err := io.WriteString(e.Stderr, e.stderrPaint().problems(files, e.StderrColumns)); err != nil {
		return err
	}
	return failed
}

// invalidFilesError carries the problems of files to diagnose, which prints errors as JSON.
type invalidFilesError struct {
	error

	files []*dagFile
}

func (e *invalidFilesError) Unwrap() error { return e.error }

func (e *invalidFilesError) places() (places []jsonProblem) {
	for _, f := range e.files {
		for _, p := range f.problems {
			places = append(places, problemJSON(p))
		}
	}
	return places
}

// applyAll registers all files, and returns the outcome of each file that the database took. If the database refuses a file, it
// goes on with the others, since files are independent, and returns all refusals as one error. It stops at any other error.
func applyAll(ctx context.Context, store *queue.Store, files []*dagFile) (done []jsonApply, err error) {
	var refused []error
	for _, f := range files {
		before, err := schedulesOfFile(ctx, store, f)
		if err != nil {
			return done, errors.Join(append(refused, err)...)
		}
		put, err := store.PutDAG(ctx, f.spec, f.source, f.path)
		if err != nil {
			p := diagnose(ctx, err)
			if p.kind != invalid {
				return done, errors.Join(append(refused, err)...)
			}
			refused = append(refused, &failure{kind: p.kind, err: fmt.Errorf("%s: %s", f.name, p.message), hint: p.hint})
			continue
		}
		outcome := "unchanged"
		if put.IsNew {
			outcome = "applied"
		}
		after, err := schedulesOfFile(ctx, store, f)
		if err != nil {
			return done, errors.Join(append(refused, err)...)
		}
		done = append(done, jsonApply{f.name, f.spec.Name, put.Version, outcome, nextOf(after), goneFrom(before, after)})
	}
	return done, errors.Join(refused...)
}

// nextOfFile returns the schedules that the database has for the DAG of a file, each with its next fire time. It reads nothing if
// the file itself has no schedules.
func nextOfFile(ctx context.Context, store *queue.Store, f *dagFile) ([]jsonNext, error) {
	if len(f.spec.Schedule) == 0 {
		return []jsonNext{}, nil
	}
	schedules, err := schedulesOfFile(ctx, store, f)
	return nextOf(schedules), err
}

func schedulesOfFile(ctx context.Context, store *queue.Store, f *dagFile) ([]queue.Schedule, error) {
	return store.Schedules(ctx, queue.ScheduleFilter{DAG: f.spec.Name, OfFile: true, Limit: queue.MaxPage})
}

// goneFrom returns the names of the schedules in before that are not in after. It leaves out backfills, which end by themselves.
func goneFrom(before, after []queue.Schedule) []string {
	gone := []string{}
	for i := range before {
		s := &before[i]
		if s.Backfill == nil && !slices.ContainsFunc(after, func(a queue.Schedule) bool { return a.ID == s.ID }) {
			gone = append(gone, s.Name)
		}
	}
	return gone
}

// nextOf returns each schedule with its next fire time, as JSON and as text for people.
func nextOf(schedules []queue.Schedule) []jsonNext {
	coming, now := []jsonNext{}, time.Now()
	for i := range schedules {
		s := &schedules[i]
		coming = append(coming, jsonNext{s.Name, runview.TextOrNull(s.PausedBy), runview.TimeOrNull(s.NextAt), runview.TimeOrNull(s.HeldFrom), runview.InlineText(s.Name) + " " + runview.FiresNext(s, now)})
	}
	return coming
}

func (e *env) applied(done []jsonApply) answer {
	paint := e.stdoutPaint()
	a := answer{object: append([]jsonApply{}, done...), lines: []any{}, ids: []string{}}
	for _, d := range done {
		a.lines = append(a.lines, d)
		a.ids = append(a.ids, d.DAG)
		if d.Outcome == "applied" {
			a.text += fmt.Sprintf("%s %s version %d\n", paint.Good(d.Outcome), d.DAG, d.Version)
		} else {
			a.text += paint.Dim(fmt.Sprintf("%s %s version %d", d.Outcome, d.DAG, d.Version)) + "\n"
		}
		for _, s := range d.Schedules {
			a.text += "  " + s.says + "\n"
		}
		for _, name := range d.SchedulesGone {
			a.text += "  " + runview.InlineText(name) + " is gone\n"
		}
	}
	return a
}

const (
	stdinWord = "-"
	stdinName = "stdin"
)

var dagExtensions = []string{".yaml", ".yml", ".json"}

// dagFile is a DAG file after it was read and checked.
type dagFile struct {
	name   string // as the user typed it
	path   string // absolute; "" for standard input
	source string
	spec   *dagspec.Spec // nil: the file has the problems in problems
	graph  *dagrun.Graph

	problems dagspec.Errors
}

// readDAGs reads and checks the given files, the DAG files of the given folders, and standard input for "-". The result has invalid
// files too, with their problems. A file that defines the same DAG as an earlier file is invalid. readDAGs returns an error if
// something cannot be read, or if a folder has no DAG file.
func (e *env) readDAGs(args []string) ([]*dagFile, error) {
	names, err := e.dagPaths(args)
	if err != nil {
		return nil, err
	}
	files := make([]*dagFile, len(names))
	for i, name := range names {
		if files[i], err = e.readDAG(name); err != nil {
			return nil, err
		}
	}
	refuseTwins(files)
	return files, nil
}

// dagPaths returns the files that args name, with each folder replaced by its DAG files, and each name once.
func (e *env) dagPaths(args []string) ([]string, error) {
	var names []string
	for _, arg := range args {
		found := []string{arg}
		if info, err := os.Stat(e.absolute(arg)); arg != stdinWord && err == nil && info.IsDir() {
			if found, err = e.dagsIn(arg); err != nil {
				return nil, err
			}
		}
		for _, name := range found {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// dagsIn returns the paths of the DAG files that stand directly in a folder, without hidden ones. A folder without DAG files is a
// notFound failure.
func (e *env) dagsIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(e.absolute(folder))
	if err != nil {
		return nil, unreadable(folder, err)
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && hasDAGExtension(entry.Name()) {
			names = append(names, filepath.Join(folder, entry.Name()))
		}
	}
	if len(names) == 0 {
		return nil, &failure{
			kind: notFound, err: fmt.Errorf("there is no DAG file in %s", folder),
			hint: "name a folder with files that end in .yaml, .yml or .json; subfolders are not searched",
		}
	}
	return names, nil
}

func hasDAGExtension(name string) bool { return slices.Contains(dagExtensions, filepath.Ext(name)) }

func (e *env) readDAG(name string) (*dagFile, error) {
	f := &dagFile{name: runview.Printable(name)} // any user may have named a file in a folder
	in := e.Stdin
	if name == stdinWord {
		f.name = stdinName
	} else {
		f.path = e.absolute(name)
		file, err := os.Open(f.path)
		if err != nil {
			return nil, unreadable(name, err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, dagspec.MaxBytes+1)) // dagspec refuses a text that is longer by one byte
	if err != nil {
		return nil, unreadable(f.name, err)
	}
	f.source = string(text)
	f.check(text)
	return f, nil
}

func (f *dagFile) check(text []byte) {
	spec, err := dagspec.Parse(f.name, text)
	if err == nil {
		f.graph, err = spec.Graph()
	}
	if err == nil {
		f.spec = spec
		return
	}
	if problems, ok := errors.AsType[dagspec.Errors](err); ok {
		f.problems = problems
		return
	}
	f.problems = dagspec.Errors{{Path: f.name, Msg: err.Error()}}
}

// refuseTwins makes a file invalid if an earlier file defines the same DAG: the last one would win, only because of its name.
func refuseTwins(files []*dagFile) {
	first := map[string]*dagFile{}
	for _, f := range files {
		switch {
		case f.spec == nil:
		case first[f.spec.Name] == nil:
			first[f.spec.Name] = f
		default:
			f.problems = dagspec.Errors{{
				Path: f.name, Msg: fmt.Sprintf("%s defines dag %q already", first[f.spec.Name].name, f.spec.Name),
				Hint: "leave one of the two files out, or give its DAG another name",
			}}
			f.spec = nil
		}
	}
}

func unreadable(name string, err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err // inner has an absolute path, longer than the path that the user typed
	}
	return &failure{kind: notFound, err: fmt.Errorf("cannot read %s: %w", name, err), hint: "name a file that this user may read"}
}

func (e *env) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(e.Dir, path)
}

// invalidFiles returns an error that counts the problems of files, or nil if no file has any.
func invalidFiles(files []*dagFile) error {
	problems, bad := 0, []string{}
	for _, f := range files {
		if n := len(f.problems); n > 0 {
			problems += n
			bad = append(bad, f.name)
		}
	}
	switch {
	case problems == 0:
		return nil
	case len(bad) == 1:
		return &failure{kind: invalid, err: fmt.Errorf("%s in %s", runview.Count(problems, "problem"), bad[0])}
	}
	return &failure{kind: invalid, err: fmt.Errorf("%s in %d of %s", runview.Count(problems, "problem"), len(bad), runview.Count(len(files), "file"))}
}

// problems returns the problems of files as text for people, with an empty line behind each. columns is the width of the terminal,
// 0 if it is unknown.
func (p painter) problems(files []*dagFile, columns int) string {
	var b strings.Builder
	for _, f := range files {
		for _, problem := range f.problems {
			b.WriteString(p.problem(problem, columns) + "\n")
		}
	}
	return b.String()
}

// problem returns a problem as text for people: place and message, then the source line with a caret, then the hint. It leaves out
// the parts that the problem does not have.
func (p painter) problem(problem dagspec.Error, columns int) string {
	place := problem.Path + ":"
	if problem.Line > 0 {
		place += fmt.Sprintf("%d:%d:", problem.Line, problem.Column)
	}
	text := p.Bold(place) + " " + problem.Msg + "\n"
	if quote := p.Snippet(problem.Line, problem.Source, problem.Caret, columns); quote != "" {
		text += quote + "\n"
	}
	if problem.Hint != "" {
		text += "  " + p.Note("hint:") + " " + problem.Hint + "\n"
	}
	return text
}

type jsonProblem struct {
	Path    string  `json:"path"`
	Line    *int    `json:"line"`
	Column  *int    `json:"column"`
	Message string  `json:"message"`
	Hint    *string `json:"hint"`
}

func problemJSON(p dagspec.Error) jsonProblem {
	j := jsonProblem{Path: p.Path, Message: p.Msg, Hint: runview.TextOrNull(p.Hint)}
	if p.Line > 0 {
		j.Line, j.Column = &p.Line, &p.Column
	}
	return j
}

func newDAGValidateCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "check DAG files and report every problem in them",
		ArgsUsage: "FILE|DIR…",
		Description: manual{
			about: `Checks files, the .yaml, .yml and .json files of folders, and standard input for "-". It checks form, names,
references, expressions and dependencies, and reports every problem of every file at once, with its line. Standard
error warns of a schedule that never fires again, of params of a schedule that look like references, and of an output
that several replacements of one rule have; the file is still valid. Needs no database.`,
			examples: []string{
				"oarlock dag validate etl.yaml",
				"oarlock dag validate dags/ -o json | jq '.errors[]'",
				"generate-dag | oarlock dag validate -",
			},
			exits: []exitNote{
				{exitOK, "all files are valid"},
				usageNote,
				{exitNotFound, "a file cannot be read"},
				{exitInvalid, "a file is invalid, or a setting is wrong"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runDAGValidate(e, c.Args().Slice()) },
	}
}

type jsonValidated struct {
	Valid  bool            `json:"valid"`
	Errors []jsonProblem   `json:"errors"`
	Files  []jsonValidFile `json:"files"`

	Warnings []jsonProblem `json:"warnings"` // of valid files
}

type jsonValidFile struct {
	Path  string  `json:"path"`
	DAG   *string `json:"dag"`
	Steps int     `json:"steps"`
	Valid bool    `json:"valid"`
}

func runDAGValidate(e *env, args []string) error {
	if len(args) == 0 {
		return errNoFiles("validate")
	}
	files, err := e.readDAGs(args)
	if err != nil {
		return err
	}
	failed := invalidFiles(files)
	return errors.Join(e.say(e.validated(files, failed == nil)), failed)
}

func errNoFiles(command string) error {
	return &usageError{msg: "dag " + command + " needs a file or a folder", hint: `"-" reads standard input; see ` + "`oarlock dag " + command + " --help`"}
}

func (e *env) validated(files []*dagFile, valid bool) answer {
	paint := e.stdoutPaint()
	object := jsonValidated{Valid: valid, Errors: []jsonProblem{}, Files: []jsonValidFile{}, Warnings: []jsonProblem{}}
	a := answer{lines: []any{}, ids: []string{}, text: paint.problems(files, e.Columns)}
	var rows [][]string
	for _, f := range files {
		j := jsonValidFile{Path: f.name, Valid: f.spec != nil}
		if f.spec != nil {
			j.DAG, j.Steps = &f.spec.Name, len(f.spec.Steps)
			a.ids = append(a.ids, f.spec.Name)
			rows = append(rows, []string{paint.Good("valid"), f.name, paint.Dim(f.spec.Name + ", " + runview.Count(j.Steps, "step"))})
		}
		object.Files = append(object.Files, j)
		for _, p := range f.problems {
			object.Errors = append(object.Errors, problemJSON(p))
			a.lines = append(a.lines, problemJSON(p))
		}
	}
	for _, w := range append(scheduleWarnings(files, time.Now()), outputWarnings(files)...) {
		object.Warnings = append(object.Warnings, problemJSON(w))
		e.remark("%s %s: %s: %s", e.stderrPaint().Warn("warning:"), w.Path, w.Msg, w.Hint)
	}
	a.object = object
	if len(rows) > 0 {
		a.text += term.AlignRows(rows)
	}
	return a
}

// scheduleWarnings returns a warning for each enabled schedule that never fires again, and for each schedule with params that look
// like references. It passes over invalid files.
func scheduleWarnings(files []*dagFile, now time.Time) (warnings dagspec.Errors) {
	for _, f := range files {
		if f.spec == nil {
			continue
		}
		for i := range f.spec.Schedule {
			s := &f.spec.Schedule[i]
			if strings.Contains(runview.CompactJSON(s.Params), "${") {
				warnings = append(warnings, dagspec.Error{
					Path: f.name, Msg: fmt.Sprintf("params of schedule %s hold ${, but Oarlock fills in no references there", runview.InlineText(s.Name)),
					Hint: "use ${run.logical_at} in a step",
				})
			}
			if s.Enabled && len(previewTimes(s, now, 1)) == 0 {
				warnings = append(warnings, dagspec.Error{
					Path: f.name, Msg: fmt.Sprintf("schedule %s %s", runview.InlineText(s.Name), runview.NeverFires), Hint: "change at: or end: of the schedule if this time is past, or except: if the exceptions leave out all times",
				})
			}
		}
	}
	return warnings
}

// outputWarnings returns a warning for each output that several replacements of one rule declare. It passes over invalid files.
func outputWarnings(files []*dagFile) (warnings dagspec.Errors) {
	for _, f := range files {
		if f.spec == nil {
			continue
		}
		for _, o := range f.spec.SharedOutputs() {
			warnings = append(warnings, dagspec.Error{
				Path: f.name, Msg: fmt.Sprintf("several replacements of step %s have the output %s: it comes from the last that succeeds", o.Step, o.Output),
				Hint: fmt.Sprintf("read all of them from steps.%s.replacements, or give the outputs different names", o.Step),
			})
		}
	}
	return warnings
}

// previewTimes returns the next n times of a checked schedule after a moment, or fewer if it ends, as the database would compute
// them.
func previewTimes(s *dagspec.Schedule, after time.Time, n int) (times []time.Time) {
	clock, err := schedule.New(s.Timing())
	if err != nil {
		return nil // cannot happen: the schedule was checked
	}
	for range n {
		next, ok := clock.Next(after)
		if !ok {
			break
		}
		times, after = append(times, next), next
	}
	return times
}

func newDAGSchemaCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "schema",
		Usage: "print the JSON Schema of DAG files",
		Description: manual{
			about: `Prints the JSON Schema (draft 7) that this binary checks files against, in every format but jsonl indented.
Editors use the schema to complete and check. In a YAML file, name the schema in the first line:
"# yaml-language-server: $schema=oarlock.json".`,
			examples: []string{"oarlock dag schema > oarlock.json"},
			exits:    []exitNote{{exitOK, "the schema was printed"}, usageNote, settingsNote},
		}.String(),
		Action: func(*cli.Context) error {
			schema := dagspec.Schema()
			return e.say(answer{object: json.RawMessage(schema), text: string(schema)})
		},
	}
}

// sayUnoffered remarks on needs of files that no live worker meets: actions, slots and secrets_command. The user may have mistyped
// the need, or may still have to start the worker. If it cannot read workers it prints nothing, since the files are applied anyway.
func (e *env) sayUnoffered(ctx context.Context, store *queue.Store, files []*dagFile) {
	workers, err := store.Workers(ctx)
	if err != nil {
		return
	}
	offers, widest := dagspec.Actions(), 0
	for i := range offers {
		offers[i] = actionPrefix + offers[i]
	}
	for i := range workers {
		if workers[i].State == queue.WorkerLive {
			offers = append(offers, workers[i].Offers...)
			widest = max(widest, workers[i].Slots)
		}
	}
	var said []string
	for _, f := range files {
		for _, text := range unoffered(f.spec, offers, widest) {
			if !slices.Contains(said, text) {
				said = append(said, text)
				e.remark("%s", text)
			}
		}
	}
}

const actionPrefix = "action:" // of an action in the words of dagspec.Spec.Needs

// unoffered returns a text for each need of a DAG that no worker meets. offers are in the words of dagspec.Spec.Needs, and
// widest is the number of slots of the largest live worker. With 0, no worker is live: a worker that starts may have the
// slots and the secrets_command, so only actions are checked.
func unoffered(spec *dagspec.Spec, offers []string, widest int) (texts []string) {
	for _, need := range spec.Needs() {
		if slices.Contains(offers, need) {
			continue
		}
		if name, ok := strings.CutPrefix(need, actionPrefix); ok {
			text := fmt.Sprintf("no worker offers the action %s: runs wait until a worker offers it", runview.Printable(name))
			if near := config.Near(name, actionsOf(offers)); near != "" {
				text += fmt.Sprintf("; did you mean %s?", runview.Printable(near))
			}
			texts = append(texts, text)
		}
		if need == "secrets:command" && widest > 0 {
			texts = append(texts, fmt.Sprintf("no worker has secrets_command, and %s has a secret with from: command: runs wait until a worker has secrets_command", spec.Name))
		}
	}
	if slots := spec.WidestStep(); widest > 0 && slots > widest {
		texts = append(texts, fmt.Sprintf("a step of %s needs %d slots, and the largest worker has %d: runs wait until a worker has %d", spec.Name, slots, widest, slots))
	}
	return texts
}

func actionsOf(offers []string) (names []string) {
	for _, offer := range offers {
		if name, ok := strings.CutPrefix(offer, actionPrefix); ok {
			names = append(names, name)
		}
	}
	return names
}

// sayMissingApprovers remarks on approvers of DAGs that are not roles. If it cannot read them it prints nothing, since the
// files are applied anyway.
func (e *env) sayMissingApprovers(ctx context.Context, store *queue.Store, done []jsonApply) {
	names := make([]string, len(done))
	for i := range done {
		names[i] = done[i].DAG
	}
	missing, err := store.MissingApprovers(ctx, names)
	if err != nil {
		return
	}
	for i := range missing {
		e.remark("%s", doctor.MissingApprovers(missing[i]))
	}
}
