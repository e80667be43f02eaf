package dagrun

import (
	"errors"
)

// Run is one drive of one generation of a run.
type Run struct {
	graph *Graph
	opts  Options
	rec   RunRecord
	nodes []node
	now   Time

	begun      bool
	draining   bool
	over       bool
	driveLimit bool // EvDriveLimit came, with limitText
	limitText  string

	// Derived from the tasks, and updated with every change of a task.
	counts   Counts
	total    int     // tasks made, handlers included
	open     int     // tasks of steps that are not settled
	failures []*task // failures that were not tolerated
	bytes    int     // bytes of the outputs of steps; items do not count
	turn     *node   // the handler that has the turn; nil: the steps have it, or all is over
	sets     [phaseCount]taskSet
	active   int // tasks that count toward limits, see task.active
	held     heap
	bodies   heap    // alarms of bodies under way
	timers   heap    // alarms of all other tasks
	work     []*task // to be judged

	decided   map[int64]bool         // IDs of decided controls
	left      map[TaskID]*TaskRecord // rows of items and replacements that have not grown (again)
	restoring bool
	effort    int // elementary moves made, for tests of linearity
	spent     int // units that expressions have cost since the last Ready

	batch // records and actions that the caller has not acknowledged yet
}

// New makes a run that no driver has driven before, in state queued. Nothing starts before the caller steps EvBegin. o.Generation
// may be above 1, and 0 counts as 1.
func New(g *Graph, o Options) *Run {
	r := newRun(g, o, RunRecord{State: RunQueued, Generation: max(o.Generation, 1)})
	r.retally()
	return r
}

func newRun(g *Graph, o Options, rec RunRecord) *Run {
	if o.ParkAfter == 0 {
		o.ParkAfter = 30_000
	}
	r := &Run{
		graph: g, opts: o, rec: rec,
		nodes: make([]node, g.Len()),
		held:  newUrgencyHeap(), bodies: newAlarmHeap(), timers: newAlarmHeap(),
		decided: map[int64]bool{}, left: map[TaskID]*TaskRecord{}, batch: batch{saved: rec},
	}
	block := make([]task, g.Len())
	for i := range r.nodes {
		n := &r.nodes[i]
		n.index, n.handler, n.main = i, i >= g.plain, &block[i]
		r.adopt(n.main, n, &n.group, TaskID{Step: i}, g.Step(i), &Growth{})
		n.main.index = -1
	}
	return r
}

// adopt fills in the new task t, which belongs to node n and group g and was made by grew, and counts it. The task is pending. If
// r.left holds a row for its ID, takeLeft gives the task that row, or only the number of its last attempt.
func (r *Run) adopt(t *task, n *node, g *group, id TaskID, step *Step, grew *Growth) {
	t.TaskRecord = TaskRecord{ID: id, Generation: r.rec.Generation, ResetBy: grew.ResetBy}
	t.step, t.node, t.group = step, n, g
	if row, ok := r.left[id]; ok {
		r.takeLeft(t, row, grew)
	}
	r.count(t)
}

// Over reports whether the drive has ended: it parked, drained or finished, and the caller has acknowledged that with Advance. A
// run that was restored after its end is over from the beginning.
func (r *Run) Over() bool { return r.over }

// Step applies an event and everything that follows from it; Ready then shows the consequences. If Step rejects the event, it
// returns ErrStale, ErrEvent or ErrOver, and nothing has changed. If it accepts the event, the last result of Ready is no longer
// valid.
func (r *Run) Step(e Event) error {
	if r.over {
		return ErrOver
	}
	was := r.now
	r.now = max(r.now, e.At)
	if err := r.apply(&e); err != nil {
		r.now = was
		return err
	}
	r.shown = false
	r.fire()
	r.settle()
	return nil
}

func (r *Run) apply(e *Event) error {
	switch e.Kind {
	case EvControl:
		return r.control(e.Control)
	case EvRefuse:
		return r.refuse(e.Text)
	case EvBegin, EvSettled, EvDriveLimit:
		if r.begun {
			return ErrEvent
		}
		return r.applyBefore(e)
	}
	if !r.begun {
		return ErrEvent
	}
	switch e.Kind {
	case EvTick:
		return nil
	case EvDrain:
		return r.drain()
	default:
		return r.applyTask(e)
	}
}

func (r *Run) applyTask(e *Event) error {
	t := r.find(e.Task)
	if t == nil {
		return ErrStale
	}
	switch e.Kind {
	case EvGranted:
		return r.granted(t)
	case EvQueued:
		return r.waitsInLine(t, e.Text)
	case EvStarted:
		return r.bodyStarted(t, e.Attempt)
	case EvFinished:
		return r.finished(t, e)
	case EvWaits:
		return r.waits(t, e)
	case EvProbed:
		return r.probed(t, e.Result)
	case EvLost:
		return r.gaveUp(t, e)
	default:
		return ErrEvent
	}
}

func (r *Run) drain() error {
	if r.draining {
		return ErrStale
	}
	r.draining = true
	r.hold()
	return nil
}

// settle judges tasks until nothing changes any more, or until expressions have used up maxSpent. The remaining tasks then stay in
// r.work for the next event. At last settle decides by conclude whether the drive ends.
func (r *Run) settle() {
	for r.begun && (r.pass() || r.judgeAll() || r.offer()) {
	}
	r.conclude()
}

// enqueue puts a task on the list of tasks to be judged, unless it is there already.
func (r *Run) enqueue(t *task) {
	if !t.queued {
		t.queued = true
		r.work = append(r.work, t)
	}
}

// maxSpent limits the cost of expressions between two calls of Ready, to about 100 ms of one core. After that the caller can
// handle events that came in meanwhile, above all a cancel. The remaining tasks are judged with the next event.
const maxSpent = 20_000_000

func (r *Run) exhausted() bool { return r.spent >= maxSpent }

// judgeAll judges the tasks in r.work and the tasks that these add to it, until expressions have used up maxSpent; the rest stays
// in r.work. It reports whether it judged any.
func (r *Run) judgeAll() (some bool) {
	i := 0
	for ; i < len(r.work) && !r.exhausted(); i++ { // the list grows during the loop
		t := r.work[i]
		t.queued = false
		r.judge(t)
	}
	rest := copy(r.work, r.work[i:])
	clear(r.work[rest:])
	r.work = r.work[:rest]
	return i > 0
}

var (
	// ErrStale rejects an event that comes too late or twice. Nothing changed, and the caller goes on.
	ErrStale = errors.New("stale event")
	// ErrOver rejects every event after the end of the drive.
	ErrOver = errors.New("the drive is over")
	// ErrEvent rejects an event that makes no sense at this point, which is a mistake of the caller. Nothing changed.
	ErrEvent = errors.New("event out of place")
)

// to moves a task to a state, and does everything that follows: it updates counters, phase and alarm, adds the row to the records,
// ends the run or other items under fail_fast, and has the children judged again. A final state other than succeeded clears the
// outputs. The caller must have set all other fields that the state needs, such as Reason and NextAt.
func (r *Run) to(t *task, s State) {
	was := t.State
	t.State = s
	r.recount(t, was)
	if s != TaskReady && s != TaskRunning && s != TaskFinishing && s != TaskWaiting {
		r.move(t, phaseNone)
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

// finish sets FinishedAt to now, and clears the fields of the row that a final state does not use. The caller has set the final
// state. A task that succeeds without ever having started gets now as StartedAt.
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

// changed adds a task's row to the next records, behind all earlier changes. Ready shows the row once, at the place of its last
// change and as it is when Ready is called.
func (r *Run) changed(t *task) {
	r.effort++
	r.seq++
	t.Seq = r.seq
	r.changes = append(r.changes, change{t, r.seq})
}

// act adds an action for a task to the ones that Ready shows. It fills in a.Task.
func (r *Run) act(t *task, a Action) {
	a.Task = t.ID
	r.actions = append(r.actions, action{a, t})
}

// note adds an entry to the run's own log. A nil task means that the entry is about the run.
func (r *Run) note(t *task, kind, text string) {
	n := Note{At: r.now, Kind: kind, Text: text}
	if t != nil {
		id := t.ID
		n.Task = &id
	}
	r.notes = append(r.notes, n)
}

// of returns a pointer to the counter in c for tasks in a state. All states that are not final share c.Open.
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

// know adds a task to r.counts, which the store and users see, and marks it as known. The task must not be known already.
func (r *Run) know(t *task) {
	t.known = true
	r.counts.Total++
	*r.counts.of(t.State)++
}

// recount updates the counters of the run after a task changed from state was to t.State. A handler enters r.counts when it first
// leaves pending and ready.
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

// recountAll sets all counters of a restored or reset run to zero and counts every task again.
func (r *Run) recountAll() {
	r.counts, r.total, r.open, r.bytes, r.failures, r.rec.Tolerated = Counts{}, 0, 0, 0, nil, 0
	for i := range r.nodes {
		r.nodes[i].tasks(r.count)
	}
}

// count adds a new or reset task with its present state to all counters, the bytes of its outputs and its failure included. A
// handler that is pending or ready, and has not started, does not enter r.counts yet.
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

// countFailure adds a failed task to r.failures, which the run's reason and the handlers report. It leaves out a foreach node that
// failed because of its items. A tolerated failure only adds 1 to r.rec.Tolerated.
func (r *Run) countFailure(t *task) {
	switch {
	case t.Tolerated:
		r.rec.Tolerated++
	case t.node.each == nil || !t.grows():
		r.failures = append(r.failures, t)
	}
}

// failed reports whether any task is failed and not tolerated, or upstream_failed.
func (r *Run) failed() bool {
	return r.counts.Failed+r.counts.UpstreamFailed > r.rec.Tolerated
}
