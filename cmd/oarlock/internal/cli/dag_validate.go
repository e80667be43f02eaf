package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/dagrun/schedule"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

func newDAGValidateCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "check DAG files and say all that is wrong with them",
		ArgsUsage: "FILE|DIR…",
		Description: manual{
			about: `Checks files, the .yaml, .yml and .json files of folders, and standard input for "-": form, names, references,
expressions, dependencies. Every problem of every file is reported at once, with its place. A schedule that never fires
from now on, or whose params look like references, is told of on standard error, and is no problem. Needs no database.`,
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
			rows = append(rows, []string{paint.good("valid"), f.name, paint.dim(f.spec.Name + ", " + runview.Count(j.Steps, "step"))})
		}
		object.Files = append(object.Files, j)
		for _, p := range f.problems {
			object.Errors = append(object.Errors, problemJSON(p))
			a.lines = append(a.lines, problemJSON(p))
		}
	}
	for _, w := range scheduleWarnings(files, time.Now()) {
		object.Warnings = append(object.Warnings, problemJSON(w))
		e.remark("%s %s: %s: %s", e.stderrPaint().warn("warning:"), w.Path, w.Msg, w.Hint)
	}
	a.object = object
	if len(rows) > 0 {
		a.text += alignRows(rows)
	}
	return a
}

// scheduleWarnings warns of each enabled schedule with only past times, and of schedule params that look like references.
func scheduleWarnings(files []*dagFile, now time.Time) (warnings dagspec.Errors) {
	for _, f := range files {
		if f.spec == nil {
			continue
		}
		for i := range f.spec.Schedule {
			s := &f.spec.Schedule[i]
			if strings.Contains(runview.CompactJSON(s.Params), "${") {
				warnings = append(warnings, dagspec.Error{
					Path: f.name, Msg: fmt.Sprintf("params of schedule %s hold ${, and no reference is filled in there", runview.InlineText(s.Name)),
					Hint: "use ${run.logical_at} in a step",
				})
			}
			if s.Enabled && len(previewTimes(s, now, 1)) == 0 {
				warnings = append(warnings, dagspec.Error{
					Path: f.name, Msg: fmt.Sprintf("schedule %s %s", runview.InlineText(s.Name), runview.NeverFires), Hint: "its at: or end: is past, or except: leaves out all of its times",
				})
			}
		}
	}
	return warnings
}

// previewTimes returns the next times of a schedule that was checked, as the database would compute them.
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
