package dagrun

// Run is one drive of one generation of a run.
type Run struct {
	graph *Graph
	opts  Options
	rec   RunRecord
	nodes []node
	now   Time

	begun    bool
	draining bool
	over     bool
	limited  *string // EvDriveLimit came, with this text

	// What follows from the tasks, kept in step with them.
	counts    Counts
	total     int // tasks made, handlers included
	open      int // tasks of steps that are not settled
	failures  []*task
	turn      *node // the handler whose turn it is
	bags      [places]bag
	held      heap
	bodies    heap                   // alarms of bodies under way
	timers    heap                   // alarms of everything else
	work      []*task                // to be judged
	left      map[TaskID]*TaskRecord // restored rows of tasks that are not grown (again)
	restoring bool
	decided   map[int64]bool
	effort    int // counts elementary moves, for tests of linearity

	// What the caller has not acknowledged.
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
	saved     RunRecord // as last acknowledged
	out       Ready     // its buffers are reused
	shown     bool      // the last Ready still holds
	shownRun  RunRecord
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

// New starts the first drive of a run.
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
		graph: g, opts: o, rec: rec, saved: rec,
		nodes: make([]node, g.Len()),
		held:  newUrgencyHeap(), bodies: newAlarmHeap(), timers: newAlarmHeap(),
		decided: map[int64]bool{},
	}
	block := make([]task, g.Len())
	for i := range r.nodes {
		n := &r.nodes[i]
		n.index, n.handler, n.main = i, i >= g.plain, &block[i]
		r.adopt(n.main, n, &n.group, TaskID{Step: i}, g.Step(i))
		n.main.index = -1
	}
	return r
}

// adopt makes a task of the run: pending, unless a row was laid aside for it.
func (r *Run) adopt(t *task, n *node, g *group, id TaskID, step *Step) {
	t.TaskRecord = TaskRecord{ID: id, Generation: r.rec.Generation}
	t.step, t.node, t.group = step, n, g
	if row, ok := r.left[id]; ok {
		r.takeLeft(t, row)
	}
	r.count(t)
}

// Over says whether the drive has ended: parked, drained or finished, and acknowledged.
func (r *Run) Over() bool { return r.over }

// Step takes an event in. It answers ErrStale, ErrEvent or ErrOver, having changed nothing, or nil.
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
		return ErrEvent
	}
	switch e.Kind {
	case EvGranted:
		return r.granted(t)
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

// settle follows everything up until nothing changes any more, then offers what may start and sees whether the drive ends.
func (r *Run) settle() {
	for r.judgeAll() || r.pass() {
	}
	r.offer()
	r.conclude()
}

func (r *Run) enqueue(t *task) {
	if !t.queued {
		t.queued = true
		r.work = append(r.work, t)
	}
}

// judgeAll judges what was enqueued, and what that enqueues in turn.
func (r *Run) judgeAll() bool {
	for i := 0; i < len(r.work); i++ {
		t := r.work[i]
		t.queued = false
		r.judge(t)
	}
	any := len(r.work) > 0
	clear(r.work)
	r.work = r.work[:0]
	return any
}

// to moves a task to a state. What else the state needs is set before.
func (r *Run) to(t *task, s State) {
	was := t.State
	t.State = s
	r.recount(t, was)
	if s != TaskReady && s != TaskRunning && s != TaskFinishing && s != TaskWaiting {
		r.move(t, nowhere)
	}
	if s.Terminal() {
		t.Request, t.RequestBy, t.Marked, t.Publishing = RequestNone, "", TaskPending, false
		t.NextAt, t.Deadline, t.FinishedAt = 0, 0, r.now
	}
	if s > TaskReady || was > TaskReady {
		r.changed(t)
	}
	r.setAlarm(t)
	if s == TaskFailed && !t.Tolerated {
		r.failFast(t)
	}
	r.spread(t)
}

// changed has the row of a task written again, after everything that changed before.
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
