package world

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// people sends random requests during the storm, and then the requests that let everything end.
func (h *history) people(ctx context.Context) {
	r := draw(h.seed, "people")
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(span(r, 200*time.Millisecond, 5*time.Second)):
		}
		if h.calm() {
			h.tidy(ctx)
			continue
		}
		run := h.store.anyRun(r)
		h.ask(ctx, h.randomAsk(ctx, r, run))
	}
}

func (h *history) ask(ctx context.Context, a queue.Ask) {
	c, err := h.store.control(ctx, a)
	h.say("%s of run %d %s: %s %s, %v", a.Verb, a.Run, a.Step, c.Outcome, c.State, err)
	if err != nil && !errors.Is(err, queue.ErrNotFound) && ctx.Err() == nil {
		h.breaks("%s of run %d: %v", a.Verb, a.Run, err)
	}
}

func (h *history) randomAsk(ctx context.Context, r *rand.Rand, run queue.RunID) queue.Ask {
	tasks, err := h.store.memory.Tasks(ctx, run)
	if err != nil || len(tasks) == 0 {
		return queue.Ask{Run: run, Verb: dagrun.VerbResume}
	}
	t := tasks[r.IntN(len(tasks))]
	a := queue.Ask{Run: run}
	switch r.IntN(16) {
	case 0:
		a.Verb, a.Now = dagrun.VerbCancel, oneIn(r, 3)
	case 1:
		a.Verb, a.Step, a.Item = dagrun.VerbCancel, t.Step, t.Item
	case 2, 3:
		a.Verb = dagrun.VerbPause
	case 4, 5:
		a.Verb = dagrun.VerbResume
	case 6:
		a.Verb, a.Step, a.Item = dagrun.VerbPause, t.Step, t.Item
	case 7:
		a.Verb, a.Step, a.Item = dagrun.VerbResume, t.Step, t.Item
	case 8, 9, 10:
		a.Verb, a.Mode = dagrun.VerbRetry, dagrun.RetryMode(r.IntN(int(dagrun.RetryAll)+1))
		if a.Mode == dagrun.RetryFrom || a.Mode == dagrun.RetryStep {
			a.Step, a.Item = t.Step, t.Item
		}
	case 11, 12, 13:
		a.Verb, a.Step = dagrun.VerbApprove, t.Step
	case 14:
		a.Verb, a.Step, a.Reason = dagrun.VerbReject, t.Step, "no"
	default:
		a.Verb, a.Step, a.Item, a.As = dagrun.VerbMark, t.Step, t.Item, dagrun.TaskSucceeded
		if oneIn(r, 3) {
			a.As = dagrun.TaskSkipped
		}
	}
	return a
}

// tidy resumes everything that is paused, and approves every approval that waits.
func (h *history) tidy(ctx context.Context) {
	for _, run := range h.store.everyRun() {
		row, err := h.store.memory.Get(ctx, run)
		if err != nil || row.Over() {
			continue
		}
		if row.State == "paused" {
			h.ask(ctx, queue.Ask{Run: run, Verb: dagrun.VerbResume})
		}
		tasks, _ := h.store.memory.Tasks(ctx, run)
		for i := range tasks {
			t := &tasks[i]
			switch {
			case t.State == "paused":
				h.ask(ctx, queue.Ask{Run: run, Verb: dagrun.VerbResume, Step: t.Step, Item: t.Item})
			case t.State == "waiting" && h.store.approval(run, t.Step):
				h.ask(ctx, queue.Ask{Run: run, Verb: dagrun.VerbApprove, Step: t.Step})
			}
		}
	}
}
