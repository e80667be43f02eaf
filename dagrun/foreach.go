package dagrun

import (
	"fmt"
	"slices"
	"strings"
)

// grow computes the items of a foreach node, makes a task for each and has these judged. Without items the node ends as skipped. If
// the items cannot be computed, or checkItems does not allow them, the node fails.
func (r *Run) grow(t *task) {
	items, err := t.step.Foreach.Items.Expand(r.scope(t))
	if err == nil {
		err = r.checkItems(t, items)
	}
	if err != nil {
		r.misconfigured(t, "foreach: "+err.Error())
		return
	}
	t.Growth = &Growth{Generation: r.rec.Generation, ResetBy: t.ResetBy, Items: slices.Clone(items)}
	if len(items) == 0 {
		r.end(t, TaskSkipped, "no items")
		return
	}
	r.growItems(t.node)
	r.to(t, TaskRunning)
	for _, g := range t.node.each.items {
		r.enqueue(g.main)
	}
	if t.node.each.open == 0 { // all items had settled rows already, see takeLeft
		r.closeForeach(t.node)
	}
}

// checkItems returns an error if there are more items than the limits allow, or if a key is empty, too long or used twice. It
// reports the first problem only.
func (r *Run) checkItems(t *task, items []Item) error {
	if limit := t.step.Foreach.MaxItems; limit > 0 && len(items) > limit {
		return fmt.Errorf("%d items are more than max_items %d", len(items), limit)
	}
	if r.total+len(items) > MaxTasks {
		return fmt.Errorf("with %d items the run would have more than %d tasks", len(items), MaxTasks)
	}
	seen := make(map[string]bool, len(items))
	for i, item := range items {
		switch {
		case item.Key == "" || len(item.Key) > MaxKeyBytes:
			return fmt.Errorf("the key of item %d has %d bytes: a key has 1 to %d bytes", i, len(item.Key), MaxKeyBytes)
		case seen[item.Key]:
			return fmt.Errorf("two items have the key %q: give each item a key of its own", item.Key)
		}
		seen[item.Key] = true
	}
	return nil
}

// growItems makes n.each: one pending task for each item of the node's Growth, which must be set. A task for which a stored row was
// laid aside takes that row, see takeLeft.
func (r *Run) growItems(n *node) {
	items := n.main.Growth.Items
	n.each = &each{
		items: make([]*group, len(items)), byKey: make(map[string]int32, len(items)),
		limit: n.main.step.Foreach.MaxConcurrent, capped: newUrgencyHeap(),
	}
	groups, tasks := make([]group, len(items)), make([]task, len(items))
	for i, item := range items {
		g, t := &groups[i], &tasks[i]
		g.main, n.each.items[i], n.each.byKey[item.Key] = t, g, int32(i)
		r.adopt(t, n, g, TaskID{Step: n.index, Item: item.Key}, n.main.step, n.main.Growth)
		t.index = int32(i)
	}
	n.retallyItems()
}

// closeForeach ends a running foreach node; all its items must have settled. It ends as failed if an item failed, else as canceled
// if one was canceled, as skipped if all were skipped, and otherwise as succeeded. closeForeach does nothing if the node is not
// running.
func (r *Run) closeForeach(n *node) {
	t, each := n.main, n.each
	if t.State != TaskRunning {
		return
	}
	state := TaskSucceeded
	switch {
	case each.states[TaskFailed]+each.states[TaskUpstreamFailed] > 0:
		state = TaskFailed
	case each.states[TaskCanceled] > 0:
		state = TaskCanceled
	case each.states[TaskSkipped] == len(each.items):
		state = TaskSkipped
	}
	r.end(t, state, r.foreachReason(n, state))
}

// foreachReason returns the reason for a foreach node that ends in a state: for a failure or a cancel, the reason of the first item
// in that state.
func (r *Run) foreachReason(n *node, state State) string {
	switch state {
	case TaskSucceeded:
		return "ran"
	case TaskSkipped:
		return "all items skipped"
	}
	for _, g := range n.each.items {
		if g.state == state {
			return r.itemReason(g, state)
		}
	}
	return ""
}

// itemReason returns "item KEY: REASON" for the first task of a group that is in a state, or "" if none is.
func (r *Run) itemReason(g *group, state State) string {
	var b strings.Builder
	g.members(func(t *task) {
		if t.State == state && b.Len() == 0 {
			b.WriteString(fmt.Sprintf("item %s: %s", t.ID.Item, t.Reason))
		}
	})
	return b.String()
}
