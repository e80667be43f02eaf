package dagrun

import "slices"

// place is the list in which the run keeps a task that is neither pending nor settled. A task is in one place at a time, so
// a question like "does anything still run?" is answered by the length of a list.
type place uint8

const (
	nowhere place = iota
	blocked       // may not start now (run paused or drained, steps before init): judged again when that changes
	probing       // waits for the cache's answer to ActProbe
	held          // ready: the best held tasks are offered as long as the limits allow
	capped        // ready, and its foreach node is at max_concurrent
	offered       // waits for a slot
	flying        // body under way
	opening       // ActOpen not answered yet
	away          // waits for its child run
	wanting       // waits for the pool of its publish
	landing       // publish under way
	places
)

// bag is an unordered set of tasks. Each task stores its position in the bag, so that it can be removed.
type bag struct{ tasks []*task }

func (b *bag) len() int { return len(b.tasks) }

func (b *bag) push(t *task) {
	t.pos = int32(len(b.tasks))
	b.tasks = append(b.tasks, t)
}

func (b *bag) remove(t *task) {
	last := len(b.tasks) - 1
	moved := b.tasks[last]
	b.tasks[t.pos], moved.pos = moved, t.pos
	b.tasks[last] = nil
	b.tasks = b.tasks[:last]
}

// container is the common interface of bag and heap.
type container interface {
	push(*task)
	remove(*task)
}

func (r *Run) container(t *task) container {
	switch t.place {
	case nowhere:
		return nil
	case held:
		return &r.held
	case capped:
		return &t.node.each.capped
	default:
		return &r.bags[t.place]
	}
}

// move moves a task to another place, and updates the counters that depend on places.
func (r *Run) move(t *task, to place) {
	from := t.place
	if from == to {
		return
	}
	r.effort++
	if c := r.container(t); c != nil {
		c.remove(t)
	}
	t.place = to
	if c := r.container(t); c != nil {
		c.push(t)
	}
	if t.told && (from == offered || from == wanting) {
		t.told = false // granted clears told before it moves the task: so only a withdrawn want becomes a drop
		r.drops = append(r.drops, t.ID)
	}
	was, is := t.active(from), t.active(to)
	r.active += is - was
	if t.node.each != nil {
		t.node.each.active += is - was
		if was > is || from == held && is == 0 && to != capped {
			r.uncap(t.node.each)
		}
	}
}

// active returns 1 for the places that count toward limits, and 0 for others. Bodies with an offered or granted slot count,
// and so do child runs. A task that only waits does not count: an approval must not keep the rest of its run from starting.
func (t *task) active(p place) int {
	if p == offered || p == flying || p == away || p == opening && t.step.Body == BodyChild {
		return 1
	}
	return 0
}

// uncap moves the best capped task of a foreach node to held, if the node's limit allows. It is called when another task of
// the node has made room or no longer wants to start, so that the best tasks which may start are always held.
func (r *Run) uncap(e *each) {
	if e.capped.len() > 0 && !e.full() {
		r.move(e.capped.first(), held)
	}
}

func (e *each) full() bool { return e.limit > 0 && e.active >= e.limit }

// offer offers the best held tasks to the caller, as far as the limits of the run and of their nodes allow. A child run
// needs no slot: offer begins it and returns true, so that the caller settles what follows before it offers more.
func (r *Run) offer() (begun bool) {
	for !r.halted() && r.held.len() > 0 && r.room() {
		t := r.held.first()
		switch e := t.node.each; {
		case e != nil && e.full():
			r.move(t, capped)
		case t.step.Body == BodyChild:
			r.wait(t)
			return true
		default:
			r.want(t, offered)
		}
	}
	return false
}

func (r *Run) room() bool {
	limit := r.graph.spec.MaxActive
	return limit == 0 || r.active < limit
}

func (r *Run) want(t *task, p place) {
	r.move(t, p)
	if !t.listed {
		t.listed = true
		r.wants = append(r.wants, t)
	}
}

// halted reports whether no task of any kind may start.
func (r *Run) halted() bool { return !r.begun || r.draining || r.rec.PausedBy != "" }

// hold moves tasks that were about to start to blocked, after the run was paused or drained. They are judged again when
// tasks may start again.
func (r *Run) hold() {
	for i := range r.nodes {
		r.nodes[i].tasks(func(t *task) {
			switch {
			case t.State == TaskReady:
				r.unready(t)
				r.move(t, blocked)
			case t.place == wanting:
				r.move(t, blocked)
			}
		})
	}
}

// release queues all blocked tasks to be judged again, in graph order: a drive that begins judges them in the same order.
func (r *Run) release() {
	tasks := slices.Clone(r.bags[blocked].tasks)
	slices.SortFunc(tasks, inOrder)
	for _, t := range tasks {
		r.move(t, nowhere)
		r.enqueue(t)
	}
}
