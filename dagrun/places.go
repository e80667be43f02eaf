package dagrun

import "slices"

// place says where the run keeps a task that is neither pending nor settled. A task is in one place at a time, so that
// each question of the kind "does anything still run?" is the length of a list.
type place uint8

const (
	nowhere place = iota
	blocked       // may not start now (run paused or drained, steps before init): tried again when that changes
	probing       // asked the cache
	held          // ready: the best of these are offered as long as the limits allow
	capped        // ready, and its foreach node is at max_concurrent
	offered       // wants a slot
	flying        // body under way
	opening       // ActOpen not answered yet
	away          // its child run is under way
	wanting       // wants the pool of its publish
	landing       // publish under way
	places
)

// bag is an unordered set of tasks; each knows its position, so that it can be taken out.
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

// container is what bag and heap have in common.
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

// move puts a task somewhere else.
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
		t.told = false // granted forgets it first: only a withdrawn want is a drop
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

// active is 1 in the places that limits count: bodies with a slot or about to get one, and child runs. What only waits
// does not count, so that no approval keeps the rest of its run from starting.
func (t *task) active(p place) int {
	if p == offered || p == flying || p == away || p == opening && t.step.Body == BodyChild {
		return 1
	}
	return 0
}

// uncap gives the best capped task of a foreach node a chance: another of its tasks made room, or no longer wants it.
// So as many of the node's best tasks as may still start are always among those held.
func (r *Run) uncap(e *each) {
	if e.capped.len() > 0 && !e.full() {
		r.move(e.capped.first(), held)
	}
}

func (e *each) full() bool { return e.limit > 0 && e.active >= e.limit }

// offer shows the best held tasks to the caller, as far as the limits of the run and of their nodes allow. A child run
// needs nothing of the caller's gate: it is begun, and what follows from that comes first.
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

// halted says whether nothing may start, whatever it is.
func (r *Run) halted() bool { return !r.begun || r.draining || r.rec.PausedBy != "" }

// hold takes back what was about to start, when the run is paused or drained: it is judged from scratch when it may.
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

// release has everything judged again that was blocked, in the order of the graph: so does a drive that begins.
func (r *Run) release() {
	tasks := slices.Clone(r.bags[blocked].tasks)
	slices.SortFunc(tasks, inOrder)
	for _, t := range tasks {
		r.move(t, nowhere)
		r.enqueue(t)
	}
}
