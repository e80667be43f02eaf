package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	topInterval     = "2s"
	minInterval     = 200 * time.Millisecond
	topRunsMax      = 50  // running runs that are read
	topFailuresMax  = 50  // newest failed runs that are read
	topApprovalsMax = 100 // approvals that are counted
	failingWindow   = time.Hour
)

func newTopCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "top",
		Usage: "watch queues, workers and the runs under way",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "interval", Usage: "look again after this `DURATION`", Value: topInterval},
		},
		Description: manual{
			about: fmt.Sprintf(`On a terminal this is one screen, drawn anew until Ctrl-C; elsewhere, and with -o json or jsonl, one look. Counts of
queued runs are bounded, so that looking costs the same whatever waits; the rates are of the last minute; of the runs
under way the newest %d are looked at. A DAG fails if one of the newest %d runs that failed is of it and ended within
the last hour. The head counts the slots of workers that give signs of life, the tasks that wait for one, the runs that
workers hold, and the runs that are due and that no worker has taken. A queue says why nothing that waits there starts:
it is paused, no worker serves it, or as many of its runs as may are under way. WAITING is how many tasks of a worker
wait for a slot, TASKS how many of a run's have ended. While the database is away the last look stays. For readers (role
oarlock_read).`, topRunsMax, topFailuresMax),
			examples: []string{"oarlock top", "oarlock top --interval 500ms", "oarlock top -o json | jq .slots"},
			exits: []exitNote{
				{exitOK, "it was shown; or Ctrl-C ended it"},
				deniedNote, usageNote, unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runTop(c.Context, e, c.String("interval")) },
	}
}

// jsonTop is one look, as JSON.
type jsonTop struct {
	At        *time.Time           `json:"at"`
	Slots     int                  `json:"slots"`   // slots of live workers that give signs of life
	Busy      int                  `json:"busy"`    // how many of these slots are busy
	Waiting   int                  `json:"waiting"` // tasks that wait for a slot
	Ended     float64              `json:"ended_per_second"`
	Failed    float64              `json:"failed_per_second"`
	Approvals int                  `json:"approvals"` // approvals that wait for a decision; topApprovalsMax: as many or more
	Failing   []jsonFailing        `json:"failing"`   // DAGs with failures within the last hour, the most first
	Queues    []runview.QueueJSON  `json:"queues"`
	Workers   []runview.WorkerJSON `json:"workers"`
	Runs      []runview.RunJSON    `json:"runs"` // running
}

// jsonFailing is a DAG with failed runs in the last hour.
type jsonFailing struct {
	DAG    string `json:"dag"`
	Failed int    `json:"failed"` // counted among the newest failed runs
}

// topView is one look, for people.
type topView struct {
	painter

	at        time.Time
	seen      queue.Glimpse
	approvals int // approvals that wait for a decision, at most topApprovalsMax
	failing   []jsonFailing
	runs      []queue.Run // running, newest first
	more      bool        // there are more running runs than runs has
	isCopy    bool        // no worker claims here; checked only if runs wait and no worker gives signs of life
	lost      error       // why the last look failed; the view is older then
}

func runTop(ctx context.Context, e *env, word string) error {
	interval, err := duration("--interval", word)
	if err == nil && interval < minInterval {
		err = &usageError{msg: fmt.Sprintf("--interval is %s or more, not %s", minInterval, word)}
	}
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		view, err := e.look(ctx, store)
		if err != nil {
			return err
		}
		if e.settings.Text("output") == "table" && e.StdoutTTY {
			return e.topLive(ctx, store, view, interval)
		}
		return e.say(view.answer(e.Columns))
	})
}

func (e *env) look(ctx context.Context, store *queue.Store) (*topView, error) {
	v := &topView{painter: e.stdoutPaint(), at: time.Now()}
	var err error
	if v.seen, err = store.Glimpse(ctx); err != nil {
		return nil, err
	}
	page, err := store.List(ctx, queue.Filter{States: []string{"running"}, Limit: topRunsMax})
	if err != nil {
		return nil, err
	}
	v.runs, v.more = page.Runs, page.Next != 0
	approvals, err := store.Approvals(ctx, true, topApprovalsMax)
	if err != nil {
		return nil, err
	}
	v.approvals = len(approvals)
	failed, err := store.List(ctx, queue.Filter{States: []string{"failed"}, Limit: topFailuresMax})
	if err != nil {
		return nil, err
	}
	v.failing = failingDAGs(failed.Runs, v.at.Add(-failingWindow))
	if v.mayBeCopy() {
		why, err := store.MayBeCopy(ctx)
		if err != nil {
			return nil, err
		}
		v.isCopy = why != ""
	}
	return v, store.CountSteps(ctx, v.runs)
}

// mayBeCopy reports whether to check for a copy: runs wait, and no worker gives signs of life.
func (v *topView) mayBeCopy() bool {
	return slices.ContainsFunc(v.seen.Queues, func(q queue.Queue) bool { return q.Queued > 0 }) &&
		!slices.ContainsFunc(v.seen.Workers, func(w queue.WorkerInfo) bool { return runview.GivesSigns(&w) })
}

// failingDAGs counts the failed runs of each DAG that ended after a moment, and lists the DAG with the most failures first.
func failingDAGs(failed []queue.Run, after time.Time) []jsonFailing {
	counts := map[string]int{}
	for i := range failed {
		if r := &failed[i]; r.FinishedAt.After(after) {
			counts[r.DAG]++
		}
	}
	failing := []jsonFailing{}
	for _, dag := range slices.Sorted(maps.Keys(counts)) {
		failing = append(failing, jsonFailing{dag, counts[dag]})
	}
	slices.SortStableFunc(failing, func(a, b jsonFailing) int { return cmp.Compare(b.Failed, a.Failed) })
	return failing
}

// topLive draws one look after the other on the terminal's alternate screen, which it leaves at the end.
func (e *env) topLive(ctx context.Context, store *queue.Store, view *topView, interval time.Duration) (err error) {
	const enter, leave = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
	defer func() { err = errors.Join(err, e.print(leave)) }()
	frame := enter
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		if err := e.print(frame + e.topFrame(view)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return endOfView(ctx)
		case <-again.C:
		}
		next, err := e.look(ctx, store)
		switch {
		case ctx.Err() != nil:
			return endOfView(ctx)
		case err == nil:
			view = next
		case diagnose(ctx, err).exit != exitUnreachable:
			return err
		default:
			view.lost = err
		}
		frame = ""
	}
}

// endOfView returns nil after Ctrl-C, which is the way to leave.
func endOfView(ctx context.Context) error {
	if cause, ok := errors.AsType[*signalError](context.Cause(ctx)); ok && cause.interrupt {
		return nil
	}
	return context.Cause(ctx)
}
