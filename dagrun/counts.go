package dagrun

// of returns the counter for a state.
func (c *Counts) of(s State) *int {
	switch s {
	case TaskSucceeded:
		return &c.Succeeded
	case TaskFailed:
		return &c.Failed
	case TaskSkipped:
		return &c.Skipped
	case TaskUpstreamFailed:
		return &c.UpstreamFailed
	case TaskCanceled:
		return &c.Canceled
	case TaskReplaced:
		return &c.Replaced
	default:
		return &c.Open
	}
}

// know adds a task to the run's counters.
func (r *Run) know(t *task) {
	t.known = true
	r.counts.Total++
	*r.counts.of(t.State)++
}

// recount updates the counters after a task changed from one state to another.
func (r *Run) recount(t *task, was State) {
	s := t.State
	switch {
	case t.known:
		*r.counts.of(was)--
		*r.counts.of(s)++
	case s > TaskReady:
		r.know(t)
	}
	if !t.node.handler {
		r.open += opens(s) - opens(was)
	}
	if s == TaskFailed {
		r.countFailure(t)
	}
}

// recountAll counts all tasks of a restored or reset run from scratch.
func (r *Run) recountAll() {
	r.counts, r.total, r.open, r.bytes, r.failures, r.rec.Tolerated = Counts{}, 0, 0, 0, nil, 0
	for i := range r.nodes {
		r.nodes[i].tasks(r.count)
	}
}

// count adds a task with its present state to all counters.
func (r *Run) count(t *task) {
	r.total++
	r.bytes += t.weight()
	if t.known = !t.node.handler || t.State > TaskReady || t.StartedAt != 0; t.known {
		r.know(t)
	}
	if !t.node.handler {
		r.open += opens(t.State)
	}
	if t.State == TaskFailed {
		r.countFailure(t)
	}
}

func opens(s State) int {
	if s.Terminal() {
		return 0
	}
	return 1
}

// countFailure adds a failed task to the failures that the run's reason and the handlers report. It leaves out tolerated
// failures, and a foreach node that failed only because its items did.
func (r *Run) countFailure(t *task) {
	switch {
	case t.Tolerated:
		r.rec.Tolerated++
	case t.node.each == nil || !t.grows():
		r.failures = append(r.failures, t)
	}
}

// failed reports whether a task failed without being tolerated.
func (r *Run) failed() bool {
	return r.counts.Failed+r.counts.UpstreamFailed > r.rec.Tolerated
}
