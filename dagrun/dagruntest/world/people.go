package world

import "github.com/oarlock-dev/oarlock/dagrun"

// person asks something of a run; in calm times only what helps it to its end.
func (w *World) person() {
	r := w.store.runs[w.rng.IntN(len(w.store.runs))]
	switch {
	case r.rec.State.Terminal():
		w.retryRun(r)
	case w.calm:
		w.help(r)
	default:
		w.store.ask(r, w.randomControl(r))
	}
}

// help answers approvals and lifts pauses.
func (w *World) help(r *row) {
	if r.rec.PausedBy != "" {
		w.store.ask(r, dagrun.Control{Verb: dagrun.VerbResume, By: "bob"})
		return
	}
	for id, t := range sorted(r.tasks) {
		if t.State == dagrun.TaskPaused {
			w.store.ask(r, dagrun.Control{Verb: dagrun.VerbResume, By: "bob", Task: &id})
			return
		}
		if t.State == dagrun.TaskWaiting && t.Ref == "" {
			w.store.ask(r, dagrun.Control{Verb: dagrun.VerbApprove, By: "bob", Task: &id})
			return
		}
	}
}

// retryRun opens a new generation now and then, while there is unrest.
func (w *World) retryRun(r *row) {
	if w.calm || r.rec.Generation > 3 || !w.chance(0.3) {
		return
	}
	r.opts.Generation++
	r.rec.Generation, r.rec.State, r.rec.FinishedAt = r.opts.Generation, dagrun.RunQueued, 0
	r.queued, r.losses = true, 0
	c := dagrun.Control{Verb: dagrun.VerbRetry, By: "ana", Mode: dagrun.RetryMode(w.rng.IntN(4)), Generation: r.opts.Generation}
	if c.Mode == dagrun.RetryFrom || c.Mode == dagrun.RetryStep {
		c.Task = &dagrun.TaskID{Step: w.rng.IntN(len(r.spec.Steps))}
	}
	w.store.ask(r, c)
}

func (w *World) randomControl(r *row) dagrun.Control {
	c := dagrun.Control{By: "ana"}
	c.Verb = []dagrun.Verb{
		dagrun.VerbCancel, dagrun.VerbPause, dagrun.VerbResume, dagrun.VerbResume, dagrun.VerbApprove, dagrun.VerbApprove,
		dagrun.VerbReject, dagrun.VerbMark, dagrun.VerbRetry,
	}[w.rng.IntN(9)]
	runVerb := c.Verb <= dagrun.VerbResume
	if c.Verb == dagrun.VerbRetry {
		c.Generation = r.rec.Generation
		return c
	}
	if !runVerb || w.chance(0.5) {
		c.Task = w.randomTask(r)
	}
	if c.Verb == dagrun.VerbCancel && c.Task == nil && !w.chance(0.2) {
		c.Verb = dagrun.VerbResume // cancels end everything: have few of them
	}
	c.Now = w.chance(0.2)
	c.As = []dagrun.State{dagrun.TaskSucceeded, dagrun.TaskFailed, dagrun.TaskSkipped}[w.rng.IntN(3)]
	return c
}

// randomTask names a task that has a row, or any step.
func (w *World) randomTask(r *row) *dagrun.TaskID {
	id := dagrun.TaskID{Step: w.rng.IntN(len(r.spec.Steps))}
	n := w.rng.IntN(len(r.tasks) + 1)
	for known := range sorted(r.tasks) {
		if n--; n == 0 {
			id = known
		}
	}
	return &id
}
