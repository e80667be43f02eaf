package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const listDefault = 20

func newListCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list runs, newest first",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "state", Usage: "list only runs in this `STATE`; may be repeated"},
			&cli.StringFlag{Name: "dag", Usage: "list only runs of this `DAG`"},
			&cli.StringFlag{Name: "queue", Usage: "list only runs in this `QUEUE`"},
			&cli.StringSliceFlag{Name: "label", Aliases: []string{"l"}, Usage: "list only runs with this label, as `NAME=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "since", Usage: "list only runs made since `TIME`: a time, or a duration like 2h"},
			&cli.StringFlag{Name: "parent", Usage: "list only the child runs of this `RUN`"},
			&cli.StringFlag{Name: "before", Usage: "list only runs older than this `RUN`, for the next page of a list"},
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "list at most `N` runs", Value: listDefault},
		},
		Description: manual{
			about: `Shows the runs that you may see. STATE is scheduled, queued, running, waiting, paused, succeeded, failed or canceled.
Filters by DAG, state, parent and time are fast among millions of runs. Other filters look through runs from the
newest on. A terminal shows one line for each run, cut to its width. -o json prints an array of runs without their
tasks.`,
			examples: []string{
				"oarlock list",
				"oarlock list --state failed --since 2h",
				"oarlock list --dag etl -l team=data -n 100 -o json",
				"oarlock list --state running -o id | xargs -n1 oarlock status",
			},
			exits: []exitNote{
				{exitOK, "the list was read; it may be empty"},
				usageNote,
				{exitNotFound, "@latest was named, but there is no run"},
				unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runList(c.Context, e, c) },
	}
}

func runList(ctx context.Context, e *env, c *cli.Context) error {
	s, err := readSelection(c, nil)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		if s.filter.Parent, err = runFlag(ctx, store, c, "parent"); err != nil {
			return err
		}
		if s.filter.Before, err = runFlag(ctx, store, c, "before"); err != nil {
			return err
		}
		return e.listRuns(ctx, store, s)
	})
}

// runFlag returns the run that a flag names, or 0 if the flag was not given.
func runFlag(ctx context.Context, store *queue.Store, c *cli.Context, name string) (queue.RunID, error) {
	if c.String(name) == "" {
		return 0, nil
	}
	arg, err := parseRun(c.String(name))
	if err != nil {
		return 0, err
	}
	return arg.find(ctx, store)
}

func (e *env) listRuns(ctx context.Context, store *queue.Store, s selection) error {
	var runs []queue.Run
	for page, err := range s.pages(ctx, store) {
		if err != nil {
			return err
		}
		runs = append(runs, page...)
	}
	if err := e.say(e.runsAnswer(runs, time.Now())); err != nil {
		return err
	}
	if e.settings.Text("output") != "table" {
		return nil
	}
	if len(runs) == 0 {
		e.remark("%s", e.nothingListed(ctx, store, s))
		return nil
	}
	if len(runs) < s.most {
		return nil
	}
	last := runs[len(runs)-1].ID
	more, err := s.more(ctx, store, last)
	if more {
		e.remark("%s", e.stderrPaint().Dim(fmt.Sprintf("there are older runs: add --before %d, or -n %d", last, 5*s.most)))
	}
	return err
}

// nothingListed explains an empty list to the user: the filter names a DAG that does not exist, there are no runs, or none passes
// the filter. It adds what to type next.
func (e *env) nothingListed(ctx context.Context, store *queue.Store, s selection) string {
	f := s.filter
	if f.DAG != "" {
		_, err := store.GetDAG(ctx, f.DAG, 0)
		if p := problemOf(ctx, orNoDAG(ctx, store, f.DAG, err)); p.kind == notFound {
			return p.message + ": " + p.hint
		}
	}
	if !s.asked && f.Parent == 0 && f.Before == 0 {
		message, hint := noRuns(ctx, store)
		return message + ": " + hint
	}
	return "no run matches" + filterText(f) + ": `oarlock list` without filters shows the newest runs"
}

// problemOf returns the problem that diagnose makes of an error, and the zero problem for nil.
func problemOf(ctx context.Context, err error) problem {
	if err == nil {
		return problem{}
	}
	return diagnose(ctx, err)
}

// filterText describes the filter in parentheses behind a space, as the end of a sentence. It returns "" for an empty filter.
func filterText(f queue.Filter) string {
	var parts []string
	add := func(word, value string) {
		if value != "" {
			parts = append(parts, word+" "+runview.Printable(value))
		}
	}
	add("state", config.OrList(f.States))
	add("DAG", f.DAG)
	add("queue", f.Queue)
	if len(f.Labels) > 0 {
		parts = append(parts, "label "+runview.LabelText(f.Labels))
	}
	if !f.Since.IsZero() {
		add("since", runview.LocalTime(f.Since))
	}
	if f.Parent != 0 {
		add("parent", decimal(int64(f.Parent)))
	}
	if f.Before != 0 {
		add("before", decimal(int64(f.Before)))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func (e *env) runsAnswer(runs []queue.Run, now time.Time) answer {
	paint := e.stdoutPaint()
	object := make([]runview.RunJSON, len(runs))
	a := answer{lines: []any{}, ids: []string{}}
	t := term.Table{Head: paint.head("RUN", "DAG", "STATE", "ASKED", "TOOK", "REASON")}
	for i := range runs {
		r := &runs[i]
		object[i] = runview.NewRunJSON(r)
		a.lines = append(a.lines, object[i])
		a.ids = append(a.ids, decimal(int64(r.ID)))
		t.Rows = append(t.Rows, []string{
			decimal(int64(r.ID)), r.DAG, paint.runState(r.State), paint.Dim(runview.LocalTime(r.CreatedAt)), runview.Took(r, now), runview.RunNote(r),
		})
	}
	a.object = object
	if len(runs) > 0 {
		a.text = e.fitted(t.String())
	}
	return a
}
