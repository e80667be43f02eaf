package dagrun

import "slices"

// batch gathers what the caller has to write and to do, and keeps what it was shown.
type batch struct {
	seq       int64
	changes   []change
	attempts  []AttemptRecord
	decisions []Decision
	notes     []Note
	actions   []action
	wants     []*task
	drops     []TaskID
	leave     *Leave
	verdict   *Verdict

	out      Ready // its buffers are reused
	shown    bool  // nothing was stepped since it was shown
	shownRun RunRecord
	saved    RunRecord // as last acknowledged
}

// change is one change of a task; only the latest of each is written.
type change struct {
	task *task
	seq  int64
}

// action keeps the task at hand, so that Ready can leave out what became pointless.
type action struct {
	Action
	task *task
}

// Ready shows what the caller must do now, and whether there is anything. It changes nothing; WakeAt is always filled. It is
// now where expressions cost so much that some tasks are not judged yet: any event goes on with them.
func (r *Run) Ready() (Ready, bool) {
	if r.over {
		return Ready{}, false
	}
	out := &r.out
	r.shown, r.spent = true, 0
	r.showRecords(&out.Records)
	r.showActions()
	r.showWants()
	out.Drops = r.drops
	out.Leave, out.Result, out.WakeAt = r.leave, r.verdict, 0
	if r.leave == nil && r.verdict == nil {
		out.WakeAt = r.wakeAt()
	}
	rec := &out.Records
	something := len(rec.Tasks)+len(rec.Attempts)+len(rec.Controls)+len(rec.Notes)+len(out.Actions)+len(out.Wants)+len(out.Drops) > 0 ||
		rec.Run != nil || out.Leave != nil || out.Result != nil
	return *out, something
}

// showRecords lists each changed task once, by its latest change.
func (r *Run) showRecords(rec *Records) {
	rec.Tasks = slices.Grow(rec.Tasks[:0], len(r.changes))
	for _, c := range r.changes {
		if c.task.Seq == c.seq {
			row := c.task.TaskRecord
			row.Asks = c.task.question()
			rec.Tasks = append(rec.Tasks, row)
		}
	}
	rec.Tasks = r.leaveOut(rec.Tasks)
	rec.Attempts, rec.Controls, rec.Notes, rec.Run = r.attempts, r.decisions, r.notes, nil
	r.shownRun = r.record()
	if !sameRun(r.shownRun, r.saved) {
		rec.Run = &r.shownRun
	}
}

// sameRun compares without the counters, which alone are not worth a write.
func sameRun(a, b RunRecord) bool {
	a.Counts, a.Tolerated = b.Counts, b.Tolerated
	return a == b
}

// showActions leaves out what its task has no use for any more.
func (r *Run) showActions() {
	r.out.Actions = slices.Grow(r.out.Actions[:0], len(r.actions))
	for _, a := range r.actions {
		if r.useful(&a) {
			r.out.Actions = append(r.out.Actions, a.Action)
		}
	}
}

func (r *Run) useful(a *action) bool {
	t := a.task
	if a.Kind == ActProbe {
		return t.place == probing
	}
	if t.Attempt != a.Attempt {
		return false
	}
	switch a.Kind {
	case ActStart:
		return a.Publish && t.place == landing || !a.Publish && t.place == flying
	case ActOpen:
		return t.place == opening
	default: // what is to stop: a refused run does not wait for it
		return t.underWay() || t.childRuns() || r.rec.Ending == EndingRefused && t.State == TaskCanceled
	}
}

func (r *Run) showWants() {
	r.out.Wants = slices.Grow(r.out.Wants[:0], len(r.wants))
	slices.SortFunc(r.wants, byUrgency)
	for _, t := range r.wants {
		if t.place == offered || t.place == wanting {
			r.out.Wants = append(r.out.Wants, t.want())
		}
	}
}

func (t *task) want() Want {
	w := Want{Task: t.ID, Priority: t.priority, Since: t.since}
	if t.place == wanting {
		w.Publish, w.Pool = true, t.step.PublishPool
		return w
	}
	w.Slots, w.Pool = max(t.step.Slots, 1), t.step.Pool
	return w
}

// Advance says that what the last Ready showed is durable and performed. After another Step it does nothing: what came
// since has not been shown.
func (r *Run) Advance() {
	if !r.shown {
		return
	}
	r.shown = false
	for _, t := range r.wants {
		t.listed = false
		t.told = t.place == offered || t.place == wanting
	}
	if r.out.Records.Run != nil {
		r.saved = r.shownRun
	}
	r.over = r.leave != nil || r.verdict != nil
	clear(r.changes)
	r.changes, r.attempts, r.decisions, r.notes = r.changes[:0], r.attempts[:0], r.decisions[:0], r.notes[:0]
	clear(r.actions)
	r.actions, r.wants, r.drops = r.actions[:0], r.wants[:0], r.drops[:0]
}
