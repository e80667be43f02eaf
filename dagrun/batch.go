package dagrun

import "slices"

// batch collects the records and actions that the caller has not acknowledged yet, and remembers what Ready showed last.
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
	shown    bool  // Ready was called, and no event was stepped since then
	shownRun RunRecord
	saved    RunRecord // the run's row as last acknowledged
}

// change is one change of a task. Ready shows only the latest change of each task.
type change struct {
	task *task
	seq  int64
}

// action is an Action with its task, so that Ready can leave out actions that have become pointless.
type action struct {
	Action
	task *task
}

// Ready shows what the caller must do now, and reports whether there is anything to do. It changes nothing. WakeAt is filled
// in either case. WakeAt is the present time when expressions were so costly that some tasks are not judged yet: the next
// event of any kind continues with them.
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

// showRecords lists each changed task once, with its latest change.
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

// sameRun compares two rows without their counters: a change of counters alone is not worth a write.
func sameRun(a, b RunRecord) bool {
	a.Counts, a.Tolerated = b.Counts, b.Tolerated
	return a == b
}

// showActions shows the actions that are still useful to their tasks.
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
	default: // ActKill, ActCancelChild: a refused run does not wait for the task to end
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

// Advance acknowledges that everything the last Ready showed is durable and performed. It does nothing if an event was
// stepped after that Ready, because the consequences of the event were not shown.
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
