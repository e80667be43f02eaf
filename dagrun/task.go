package dagrun

import "cmp"

// task is one row of a run: a step, an item of a foreach step, or a replacement.
type task struct {
	TaskRecord
	step  *Step // what it runs: of a replacement, the replacement's own
	node  *node
	group *group
	index int32 // of its item

	place place
	pos   int32 // in the bag or heap of its place
	clock *heap // where its alarm is set, nil for nowhere
	tick  int32 // position there
	alarm Time

	since    Time // ready since
	priority int
	deadline Time // of the attempt, or the publish, under way
	settled  *Result
	asks     *Asks // of an approval that began to wait in this drive
	stored   bool  // restored from a row of its own
	queued   bool  // in Run.work
	started  bool  // EvStarted came
	missed   bool  // the cache had nothing
	late     bool  // its publish was told to end: its time is up
	listed   bool  // in Run.wants
	told     bool  // its want was shown before the last Advance
	shown    bool  // its row says that it is ready
	known    bool  // counted in Run.counts: a handler is only once it left pending and ready
}

// group is one step or one item: the task and what replaced it. It settles when all its members did.
type group struct {
	main  *task
	alts  []*task // alts[i].Alt == i+1
	state State   // its result, once class says that it settled
	class class
}

// node is a step or handler of the graph in this run.
type node struct {
	group
	index   int
	handler bool
	tally   tally    // what its parents contribute
	gives   [3]class // what it contributes to its children, by EdgeState
	each    *each    // what a foreach node grew to
}

// each holds the items of a foreach node.
type each struct {
	items  []*group
	byKey  map[string]int32
	open   int // items not settled
	states [TaskReplaced + 1]int
	limit  int  // max_concurrent, 0 = none
	active int  // tasks of the node offered or under way
	capped heap // ready tasks held back by the limit
}

// grows says whether the task is the node of a foreach step, which runs nothing itself.
func (t *task) grows() bool { return t.step.Foreach != nil && t.ID.Item == "" && t.ID.Alt == 0 }

// grown says whether the task is a foreach node whose items stand for it now.
func (t *task) grown() bool { return t.grows() && t.State == TaskRunning }

// runs says whether a body of the task is recorded as running, in this drive or in a former one.
func (t *task) runs() bool { return t.State == TaskRunning && !t.grows() }

// underWay says whether a body or publish of this drive has to end before the task can.
func (t *task) underWay() bool { return t.place == flying || t.place == landing }

// members calls do for the task of a group and all its replacements.
func (g *group) members(do func(*task)) {
	do(g.main)
	for _, t := range g.alts {
		do(t)
	}
}

// tasks calls do for every task of a node: its own, its replacements, its items and theirs.
func (n *node) tasks(do func(*task)) {
	n.members(do)
	if n.each == nil {
		return
	}
	for _, g := range n.each.items {
		g.members(do)
	}
}

// inOrder compares by place in the graph.
func inOrder(a, b *task) int {
	return cmp.Or(cmp.Compare(a.ID.Step, b.ID.Step), cmp.Compare(a.index, b.index), cmp.Compare(a.ID.Alt, b.ID.Alt))
}

// byUrgency compares by who gets a slot first.
func byUrgency(a, b *task) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.since, b.since), inOrder(a, b))
}

// byAlarm compares by who is woken first.
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
