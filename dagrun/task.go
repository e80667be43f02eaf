package dagrun

import (
	"cmp"
	"slices"
)

// task is one row of a run: a step, an item of a foreach step, or a replacement.
type task struct {
	TaskRecord
	step  *Step // the step, or the description of the replacement
	node  *node
	group *group
	index int32 // index of its item

	phase phase
	pos   int32 // position in the set or heap of its phase
	clock *heap // heap that holds its alarm; nil = no alarm
	tick  int32 // position in clock
	alarm Time

	since    Time // time when it became ready
	priority int
	deadline Time // end of the time for the attempt or publish under way; 0 = none
	settled  *Result
	replaces *task      // of a replacement: the task that failed
	choice   *Choice    // of a replacement by data
	plans    *ErrorRule // of the body that a rule asks which of its replacements are to start
	stderr   string     // Stderr of the Result that ended its last attempt in this drive
	asks     *Asks      // question of an approval that began to wait in this drive
	stored   bool       // restored from a row of its own
	queued   bool       // is in Run.work
	started  bool       // EvStarted came
	missed   bool       // the cache has no outputs for it
	late     bool       // its publish was asked to end because its time is up
	listed   bool       // is in Run.wants
	told     bool       // its want was shown before the last Advance
	shown    bool       // its stored row has it as ready, or says why its publish waits
	known    bool       // counted in Run.counts; a handler is counted once it has left pending and ready
	fresh    bool       // is in Run.fresh
	pinned   bool       // is in Run.pinned
}

// group is one step or one item: its task and the replacements of that task. A group settles when all its members have
// settled.
type group struct {
	main  *task
	alts  []*task // alts[i].Alt == i+1
	state State   // the group's result, valid once class is not classOpen
	class class
}

// node is a step or handler of the graph in this run.
type node struct {
	group
	index   int
	handler bool
	tally   tally    // number of its parents by class
	gives   [3]class // class that counts for its children, by EdgeState
	each    *each    // items of a foreach node; nil before it grew
}

// each holds the items of a foreach node.
type each struct {
	items  []*group
	byKey  map[string]int32
	open   int // items that have not settled
	states [TaskReplaced + 1]int
	limit  int  // max_concurrent, 0 = none
	active int  // tasks of the node that count toward limit
	capped heap // ready tasks held back by the limit
}

// grows reports whether the task is the node of a foreach step, which runs nothing itself.
func (t *task) grows() bool { return t.step.Foreach != nil && t.ID.Item == "" && t.ID.Alt == 0 }

// grown reports whether the task is a foreach node that has grown its items, and that waits for them.
func (t *task) grown() bool { return t.grows() && t.State == TaskRunning }

// runs reports whether a body of the task is recorded as running, in this drive or in a former one.
func (t *task) runs() bool { return t.State == TaskRunning && !t.grows() }

// underWay reports whether this driver has a body or publish of the task under way, which must end before the task can.
func (t *task) underWay() bool { return t.phase == phaseRunning || t.phase == phasePublishing }

// members calls do for the task of a group and for all its replacements.
func (g *group) members(do func(*task)) {
	do(g.main)
	for _, t := range g.alts {
		do(t)
	}
}

// tasks calls do for every task of a node: its own, its replacements, its items and their replacements.
func (n *node) tasks(do func(*task)) {
	n.members(do)
	if n.each == nil {
		return
	}
	for _, g := range n.each.items {
		g.members(do)
	}
}

// inOrder compares two tasks by step, then item, then replacement. Its result is for slices.SortFunc.
func inOrder(a, b *task) int {
	return cmp.Or(cmp.Compare(a.ID.Step, b.ID.Step), cmp.Compare(a.index, b.index), cmp.Compare(a.ID.Alt, b.ID.Alt))
}

// byUrgency compares two tasks for slices.SortFunc: the task that is to get a slot first comes first. A higher priority wins, then
// the longer wait, then graph order.
func byUrgency(a, b *task) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.since, b.since), inOrder(a, b))
}

// byAlarm compares two tasks for slices.SortFunc: the task with the earlier alarm comes first, and graph order decides among
// equals.
func byAlarm(a, b *task) int { return cmp.Or(cmp.Compare(a.alarm, b.alarm), inOrder(a, b)) }

func newUrgencyHeap() heap {
	return heap{
		before: func(a, b *task) bool { return byUrgency(a, b) < 0 },
		slot:   func(t *task) *int32 { return &t.pos },
	}
}

func newAlarmHeap() heap {
	return heap{
		before: func(a, b *task) bool { return byAlarm(a, b) < 0 },
		slot:   func(t *task) *int32 { return &t.tick },
	}
}

// phase is the list in which the run keeps a task that is neither pending nor settled. A task is in one phase at a time, so
// a question like "does anything still run?" is answered by the length of a list.
type phase uint8

const (
	phaseNone          phase = iota
	phaseBlocked             // may not start now (run paused or drained, steps before init): judged again when that changes
	phaseProbing             // waits for the cache's answer to ActProbe
	phaseHeld                // ready: the best held tasks are offered as long as the limits allow
	phaseCapped              // ready, and its foreach node is at max_concurrent
	phaseOffered             // waits for a slot
	phaseRunning             // body under way
	phaseOpening             // ActOpen not answered yet
	phaseAwaitingChild       // waits for its child run
	phaseQueuedPublish       // waits for the pool of its publish
	phasePublishing          // publish under way
	phaseCount
)

// taskSet is an unordered set of tasks. Each task stores its position in the taskSet, so that it can be removed.
type taskSet struct{ tasks []*task }

func (b *taskSet) len() int { return len(b.tasks) }

func (b *taskSet) push(t *task) {
	t.pos = int32(len(b.tasks))
	b.tasks = append(b.tasks, t)
}

func (b *taskSet) remove(t *task) {
	last := len(b.tasks) - 1
	moved := b.tasks[last]
	b.tasks[t.pos], moved.pos = moved, t.pos
	b.tasks[last] = nil
	b.tasks = b.tasks[:last]
}

// container is the common interface of taskSet and heap.
type container interface {
	push(*task)
	remove(*task)
}

// container returns the list that holds a task by its phase, or nil for phaseNone.
func (r *Run) container(t *task) container {
	switch t.phase {
	case phaseNone:
		return nil
	case phaseHeld:
		return &r.held
	case phaseCapped:
		return &t.node.each.capped
	default:
		return &r.sets[t.phase]
	}
}

// move moves a task to another phase, and to the list of that phase. It updates the counters of limits, and moves a capped task of
// the same foreach node to held if there is room now. If the caller of the run has seen a want of the task that is not granted,
// move adds it to the drops.
func (r *Run) move(t *task, to phase) {
	from := t.phase
	if from == to {
		return
	}
	r.effort++
	if c := r.container(t); c != nil {
		c.remove(t)
	}
	t.phase = to
	if c := r.container(t); c != nil {
		c.push(t)
	}
	if t.told && (from == phaseOffered || from == phaseQueuedPublish) {
		t.told = false // granted clears told before it moves the task: so only a withdrawn want becomes a drop
		r.drops = append(r.drops, t.ID)
	}
	was, is := t.active(from), t.active(to)
	r.active += is - was
	if t.node.each != nil {
		t.node.each.active += is - was
		if was > is || from == phaseHeld && is == 0 && to != phaseCapped {
			r.uncap(t.node.each)
		}
	}
}

// active returns 1 if the task counts toward limits in phase p, and else 0. Bodies with an offered or granted slot count, and so do
// child runs. A task that only waits does not count: an approval must not keep the rest of its run from starting.
func (t *task) active(p phase) int {
	if p == phaseOffered || p == phaseRunning || p == phaseAwaitingChild || p == phaseOpening && t.step.Body == BodyChild {
		return 1
	}
	return 0
}

// uncap moves the best capped task of a foreach node to held, if there is one and the node's limit allows it. It is called when
// another task of the node has made room or no longer wants to start, so that the best tasks which may start are always held.
func (r *Run) uncap(e *each) {
	if e.capped.len() > 0 && !e.full() {
		r.move(e.capped.first(), phaseHeld)
	}
}

// full reports whether the node has a limit and has reached it.
func (e *each) full() bool { return e.limit > 0 && e.active >= e.limit }

// offer offers the best held tasks to the caller, as far as the limits of the run and of their nodes allow; it moves tasks of a
// full node to capped. A child run needs no slot: offer begins it and returns true at once, so that settle handles what follows
// before it calls offer again. Otherwise offer returns false.
func (r *Run) offer() (begun bool) {
	for !r.halted() && r.held.len() > 0 && r.room() {
		t := r.held.first()
		switch e := t.node.each; {
		case e != nil && e.full():
			r.move(t, phaseCapped)
		case t.step.Body == BodyChild:
			r.wait(t)
			return true
		default:
			r.want(t, phaseOffered)
		}
	}
	return false
}

// room reports whether another task of the run may become active by max_active_steps.
func (r *Run) room() bool {
	limit := r.graph.spec.MaxActive
	return limit == 0 || r.active < limit
}

// want moves a task to a phase in which it waits for a slot or a pool, and has Ready show its Want.
func (r *Run) want(t *task, p phase) {
	r.move(t, p)
	if !t.listed {
		t.listed = true
		r.wants = append(r.wants, t)
	}
}

// halted reports whether no task of any kind may start: the drive has not begun, drains, or the run is paused.
func (r *Run) halted() bool { return !r.begun || r.draining || r.rec.PausedBy != "" }

// hold blocks all tasks and publishes that were about to start, after the run was paused or drained. A ready task becomes pending.
// release has the blocked tasks judged again when they may start.
func (r *Run) hold() {
	for i := range r.nodes {
		r.nodes[i].tasks(func(t *task) {
			switch {
			case t.State == TaskReady:
				r.unready(t)
				r.move(t, phaseBlocked)
			case t.phase == phaseQueuedPublish:
				r.move(t, phaseBlocked)
			}
		})
	}
}

// release queues all blocked tasks to be judged again, in graph order: a drive that begins judges them in the same order.
func (r *Run) release() {
	tasks := slices.Clone(r.sets[phaseBlocked].tasks)
	slices.SortFunc(tasks, inOrder)
	for _, t := range tasks {
		r.move(t, phaseNone)
		r.enqueue(t)
	}
}

// heap keeps tasks ordered by before. It stores the position of each task in the field that slot returns, so that any task
// can be removed.
type heap struct {
	tasks  []*task
	before func(a, b *task) bool
	slot   func(*task) *int32
}

func (h *heap) len() int { return len(h.tasks) }

// first returns the task before all others and leaves it in the heap. It returns nil if the heap is empty.
func (h *heap) first() *task {
	if len(h.tasks) == 0 {
		return nil
	}
	return h.tasks[0]
}

func (h *heap) push(t *task) {
	h.tasks = append(h.tasks, t)
	h.up(len(h.tasks) - 1)
}

func (h *heap) remove(t *task) {
	i, last := int(*h.slot(t)), len(h.tasks)-1
	moved := h.tasks[last]
	h.tasks[last] = nil
	h.tasks = h.tasks[:last]
	if i == last {
		return
	}
	h.tasks[i] = moved
	h.down(i)
	h.up(int(*h.slot(moved)))
}

func (h *heap) up(i int) {
	t := h.tasks[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(t, h.tasks[parent]) {
			break
		}
		h.put(i, h.tasks[parent])
		i = parent
	}
	h.put(i, t)
}

func (h *heap) down(i int) {
	t := h.tasks[i]
	for {
		child := 2*i + 1
		if child >= len(h.tasks) {
			break
		}
		if right := child + 1; right < len(h.tasks) && h.before(h.tasks[right], h.tasks[child]) {
			child = right
		}
		if !h.before(h.tasks[child], t) {
			break
		}
		h.put(i, h.tasks[child])
		i = child
	}
	h.put(i, t)
}

func (h *heap) put(i int, t *task) {
	h.tasks[i] = t
	*h.slot(t) = int32(i)
}
