package dagrun

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
	bags     [places]bag
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
		graph: g, opts: o, rec: rec,
		nodes: make([]node, g.Len()),
		held:  newUrgencyHeap(), bodies: newAlarmHeap(), timers: newAlarmHeap(),
		decided: map[int64]bool{}, batch: batch{saved: rec},
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

// adopt initializes a task of the run. The task is pending, or takes the row that was laid aside for it.
func (r *Run) adopt(t *task, n *node, g *group, id TaskID, step *Step) {
	t.TaskRecord = TaskRecord{ID: id, Generation: r.rec.Generation}
	t.step, t.node, t.group = step, n, g
	if row, ok := r.left[id]; ok {
		r.takeLeft(t, row)
	}
	r.count(t)
}

// Over reports whether the drive has ended (parked, drained or finished) and the caller has acknowledged it.
func (r *Run) Over() bool { return r.over }

// Step applies an event. It returns ErrStale, ErrEvent or ErrOver if it rejects the event; then nothing has changed.
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

// settle judges tasks until nothing changes any more, then decides whether the drive ends.
func (r *Run) settle() {
	for r.begun && (r.pass() || r.judgeAll() || r.offer()) {
	}
	r.conclude()
}

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

// judgeAll judges the queued tasks, and tasks that they queue in turn, until expressions have used up maxSpent. It reports
// whether it judged any.
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
