package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newDAGApplyCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "register DAG files, each as the next version of its DAG",
		ArgsUsage: "FILE|DIR…",
		Description: manual{
			about: `Checks all files first, and registers none when one of them is invalid. Takes files, the .yaml, .yml and .json
files of folders, and standard input for "-". A file that says the same as the current version changes nothing.
Runs that exist keep the version they were asked for. The DAG's schedules become those of the file, and it is said when
each fires next: nothing fires by applying a file. An action that Oarlock does not have and no live worker offers is
told of on standard error: its runs wait. So is an approver that is no role of the database. For administrators (role
oarlock_admin).`,
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
				{exitInvalid, "a file is invalid, or wants what this version cannot execute; or a setting is wrong"},
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

// reportInvalid prints the problems of files for people. With -o json the problems are part of the error.
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

// applyAll applies all files. If the database refuses a file, it goes on with the others, since files are independent. It
// stops at any other error.
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

// nextOfFile returns the next fire times of the schedules of a file that was just applied.
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

// goneFrom names the schedules of before that are not in after. It leaves out backfills, which end by themselves.
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

// nextOf returns the next fire time of each schedule.
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
			a.text += fmt.Sprintf("%s %s version %d\n", paint.good(d.Outcome), d.DAG, d.Version)
		} else {
			a.text += paint.dim(fmt.Sprintf("%s %s version %d", d.Outcome, d.DAG, d.Version)) + "\n"
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
