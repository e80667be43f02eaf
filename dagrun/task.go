package dagrun

import "cmp"

// task is one row of a run: a step, an item of a foreach step, or a replacement.
type task struct {
	TaskRecord
	step  *Step // the step, or the description of the replacement
	node  *node
	group *group
	index int32 // index of its item

	place place
	pos   int32 // position in the bag or heap of its place
	clock *heap // heap that holds its alarm; nil = no alarm
	tick  int32 // position in clock
	alarm Time

	since    Time // time when it became ready
	priority int
	deadline Time // end of the time for the attempt or publish under way; 0 = none
	settled  *Result
	asks     *Asks // question of an approval that began to wait in this drive
	stored   bool  // restored from a row of its own
	queued   bool  // is in Run.work
	started  bool  // EvStarted came
	missed   bool  // the cache has no outputs for it
	late     bool  // its publish was asked to end because its time is up
	listed   bool  // is in Run.wants
	told     bool  // its want was shown before the last Advance
	shown    bool  // its stored row has it as ready
	known    bool  // counted in Run.counts; a handler is counted once it has left pending and ready
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

// underWay reports whether a body or publish of this drive must end before the task can end.
func (t *task) underWay() bool { return t.place == flying || t.place == landing }

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

// inOrder compares two tasks by their position in the graph.
func inOrder(a, b *task) int {
	return cmp.Or(cmp.Compare(a.ID.Step, b.ID.Step), cmp.Compare(a.index, b.index), cmp.Compare(a.ID.Alt, b.ID.Alt))
}

// byUrgency compares two tasks: the task that gets a slot first comes first.
func byUrgency(a, b *task) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.since, b.since), inOrder(a, b))
}

// byAlarm compares two tasks: the task with the earlier alarm comes first.
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
