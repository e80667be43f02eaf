package dagrun

// enter makes a pending task ready, or ends the task if its own condition does not hold.
func (r *Run) enter(t *task) {
	if r.halted() {
		r.move(t, blocked)
		return
	}
	r.move(t, nowhere)
	if !r.when(t) {
		return
	}
	t.since = r.now
	r.to(t, TaskReady)
	switch res := r.precomputed(t); {
	case res != nil:
		r.instant(t, *res, "precomputed")
	case t.grows():
		r.grow(t)
	case t.step.CacheKey != nil:
		r.probe(t)
	default:
		r.start(t)
	}
}

// when evaluates the task's own condition before the first attempt, and reports whether the task may start. A further
// attempt does not evaluate it again.
func (r *Run) when(t *task) bool {
	cond := t.step.When
	if cond == nil || t.StartedAt != 0 || !t.conditional() {
		return true
	}
	holds, err := cond.Eval(r.scope(t))
	switch {
	case err != nil:
		r.misconfigured(t, "when: "+err.Error())
	case !holds:
		r.skip(t, "when: "+cond.String())
	}
	return holds && err == nil
}

// conditional reports whether the condition of the step applies to this task. The condition of a foreach step applies to the
// node, or to each of its items.
func (t *task) conditional() bool {
	if t.node.main.step.Foreach == nil || t.ID.Alt != 0 {
		return true
	}
	return t.step.WhenPerItem == (t.ID.Item != "")
}

func (r *Run) precomputed(t *task) *Result {
	if t == t.node.main && !t.step.Reserved() {
		if res, ok := r.opts.Precomputed[t.step.Name]; ok {
			return &res
		}
	}
	return t.step.Result
}

// instant ends a task with a result that needs no body.
func (r *Run) instant(t *task, res Result, reason string) {
	r.attempt(t)
	res.SnoozeUntil = 0
	if res.Reason == "" && res.Kind == KindNone {
		res.Reason = reason
	}
	r.weigh(t, res)
}

// probe asks the cache for the task's outputs, before the task asks for a slot.
func (r *Run) probe(t *task) {
	key, err := t.step.CacheKey.Text(r.scope(t))
	if err != nil {
		r.misconfigured(t, "cache key: "+err.Error())
		return
	}
	t.CacheKey = key
	r.move(t, probing)
	r.act(t, Action{Kind: ActProbe, Key: key})
}

func (r *Run) probed(t *task, hit *Result) error {
	if t.place != probing {
		return ErrStale
	}
	r.move(t, nowhere)
	if hit != nil {
		t.CacheKey = "" // it is in the cache already
		r.instant(t, *hit, "cached")
		return nil
	}
	t.missed = true
	r.start(t)
	return nil
}

// start starts a ready task, or has it wait for a slot.
func (r *Run) start(t *task) {
	switch t.step.Body {
	case BodyNoop:
		r.instant(t, Result{}, "ran")
	case BodyTask, BodyChild:
		t.priority = r.priority(t)
		r.move(t, held)
	case BodyApproval:
		r.askPeople(t)
	default:
		r.wait(t)
	}
}

func (r *Run) priority(t *task) int {
	if t.step.PriorityExpr == nil {
		return t.step.Priority
	}
	p, err := t.step.PriorityExpr.Number(r.scope(t))
	if err != nil {
		r.note(t, "priority", "counts as 0: "+err.Error())
		return 0
	}
	return p
}

// granted starts the body or the publish of a task that has been granted its slot or pool.
func (r *Run) granted(t *task) error {
	switch t.place {
	case offered:
		t.told = false
		r.move(t, flying)
		r.attempt(t)
		r.to(t, TaskRunning)
		r.act(t, Action{Kind: ActStart, Attempt: t.Attempt})
	case wanting:
		t.told = false
		r.publish(t)
	default:
		return ErrStale
	}
	return nil
}

// waitsInLine stores in the task's row that it is ready, with the reason why it waits.
func (r *Run) waitsInLine(t *task, text string) error {
	switch t.place {
	case offered:
	case held, capped:
		if text == "" || r.ahead(t) == nil {
			text = r.explainStart(t)
		}
	default:
		return ErrStale
	}
	t.Reason, t.shown = text, true
	r.changed(t)
	return nil
}

// attempt begins the next attempt of a task.
func (r *Run) attempt(t *task) {
	if t.StartedAt == 0 {
		t.StartedAt = r.now
		r.itemStarted(t)
	}
	t.Attempt++
	t.Generation, t.AttemptAt = r.rec.Generation, r.now
	r.clearResult(t)
	t.NextAt, t.Deadline, t.Ref = 0, 0, ""
	t.deadline, t.started, t.missed, t.shown = 0, false, false, false
}

// clearResult removes the result of the last attempt from the task's row.
func (r *Run) clearResult(t *task) {
	r.put(t, "")
	t.Reason, t.Kind, t.ExitCode, t.HasExit, t.Signal = "", KindNone, 0, false, 0
	t.Tolerated, t.FinishedAt = false, 0
}

// itemStarted marks a foreach node as started when its first item starts. The node's record comes before the item's.
func (r *Run) itemStarted(t *task) {
	if main := t.node.main; t != main && t.ID.Item != "" && main.StartedAt == 0 {
		main.StartedAt = r.now
		r.changed(main)
		r.spreadNode(t.node)
	}
}

func (r *Run) bodyStarted(t *task, attempt int) error {
	timeout := t.step.Timeout
	switch {
	case t.State == TaskFinishing && t.Attempt == attempt:
		if timeout = t.step.PublishTimeout; t.place != landing || t.deadline != 0 {
			return nil // the event is late: the publish has ended, or its deadline is set
		}
	case t.place != flying || t.Attempt != attempt || t.started:
		return ErrStale
	default:
		t.started = true
	}
	if timeout > 0 {
		t.deadline = after(r.now, timeout)
		r.setAlarm(t)
	}
	return nil
}
