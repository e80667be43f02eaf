package dagrun

// to moves a task to a state. The caller has set the other fields that the state needs before.
func (r *Run) to(t *task, s State) {
	was := t.State
	t.State = s
	r.recount(t, was)
	if s != TaskReady && s != TaskRunning && s != TaskFinishing && s != TaskWaiting {
		r.move(t, nowhere)
	}
	if s.Terminal() {
		t.Generation = r.rec.Generation
		if s != TaskSucceeded {
			r.put(t, "")
		}
		t.finish(r.now)
	}
	if s == TaskPending && t.shown {
		t.Reason, was = "", TaskReady+1
	}
	if s > TaskReady || was > TaskReady {
		t.shown = t.shown && s <= TaskReady
		r.changed(t)
	}
	r.setAlarm(t)
	if s == TaskFailed && !t.Tolerated {
		r.failFast(t)
	}
	r.spread(t)
}

// finish clears the fields of a row that its final state does not use.
func (t *task) finish(now Time) {
	t.Request, t.RequestBy, t.Marked, t.Publishing = RequestNone, "", TaskPending, false
	t.NextAt, t.Deadline, t.FinishedAt = 0, 0, now
	if t.State == TaskSucceeded && t.StartedAt == 0 {
		t.StartedAt = now // a task without a body never started
	}
	if t.State != TaskFailed && t.State != TaskReplaced {
		t.Kind = KindNone
	}
}

// changed adds a task's row to the next records, behind all earlier changes.
func (r *Run) changed(t *task) {
	r.effort++
	r.seq++
	t.Seq = r.seq
	r.changes = append(r.changes, change{t, r.seq})
}

func (r *Run) act(t *task, a Action) {
	a.Task = t.ID
	r.actions = append(r.actions, action{a, t})
}

func (r *Run) note(t *task, kind, text string) {
	n := Note{At: r.now, Kind: kind, Text: text}
	if t != nil {
		id := t.ID
		n.Task = &id
	}
	r.notes = append(r.notes, n)
}
