package coretest

import (
	"cmp"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// settle makes one change after the other until no change is left, then offers the tasks that may start.
func (m *Model) settle() {
	for n := 0; m.changeSomething() || m.offer(); n++ {
		if n > 100*len(m.cells)+100 {
			panic("the model changes something for ever")
		}
	}
}

func (m *Model) changeSomething() bool {
	if m.settleInit() {
		return true
	}
	for _, c := range m.sorted() {
		if m.settleNode(c) || m.startOrSkip(c) || m.startPublish(c) {
			return true
		}
	}
	return false
}

// held reports whether a pause or a drain keeps new work from starting.
func (m *Model) held() bool { return m.run.PausedBy != "" || m.drain }

// startOrSkip moves a pending or ready task on, as its edges and the state of the run allow.
func (m *Model) startOrSkip(c *cell) bool {
	if c.fresh || c.State != dagrun.TaskPending && c.State != dagrun.TaskReady {
		return false
	}
	if m.isHandler(c) && !m.isOpen(c) {
		late := c.State == dagrun.TaskReady
		m.unready(c)
		c.State = dagrun.TaskPending
		return late
	}
	if !m.isHandler(c) && !m.initDone() {
		return false
	}
	switch j, reason := m.judge(c); {
	case j == Undecided && c.State == dagrun.TaskReady:
		m.unready(c)
		c.State = dagrun.TaskPending
		return true
	case j == Undecided:
		return false
	case j == Fails:
		m.unready(c)
		m.end(c, dagrun.TaskUpstreamFailed, reason)
		return true
	case j == Skips:
		m.unready(c)
		m.end(c, dagrun.TaskSkipped, reason)
		return true
	}
	if m.held() || !m.isOpen(c) {
		return false
	}
	if c.State == dagrun.TaskPending {
		c.State, c.since = dagrun.TaskReady, m.now
		m.enter(c)
		return true
	}
	if c.cleared && !c.limited() {
		m.body(c)
		return true
	}
	return false
}

// unready clears the marks that only a ready task has.
func (m *Model) unready(c *cell) { c.cleared, c.probing, c.offered = false, false, false }

// enter evaluates when, foreach, precomputed results and the cache, in this order.
func (m *Model) enter(c *cell) {
	if !m.passesWhen(c) {
		return
	}
	if c.isNode() {
		m.grow(c)
		return
	}
	if r := m.precomputed(c); r != nil {
		m.beginAttempt(c)
		m.bodyEnds(c, *r, "precomputed")
		return
	}
	if c.step.CacheKey == nil {
		c.cleared = true
		return
	}
	key, err := c.step.CacheKey.Text(m.scope(c))
	if err != nil {
		m.fail(c, dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()})
		return
	}
	c.CacheKey = key
	if had := cmp.Or(c.ResetFrom, m.node(c.ID.Step).ResetFrom); had == dagrun.TaskSucceeded { // it would find its own outputs
		c.cleared = true
		return
	}
	c.probing = true
	m.act(dagrun.Action{Kind: dagrun.ActProbe, Task: c.ID, Key: key})
}

func (m *Model) passesWhen(c *cell) bool {
	w := c.step.When
	if w == nil || c.StartedAt != 0 || (c.step.Foreach != nil && c.ID.Alt == 0 && c.isNode() == c.step.WhenPerItem) {
		return true
	}
	yes, err := w.Eval(m.scope(c))
	switch {
	case err != nil:
		m.fail(c, dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()})
	case !yes:
		m.end(c, dagrun.TaskSkipped, "when: "+w.String())
	}
	return yes && err == nil
}

func (m *Model) precomputed(c *cell) *dagrun.Result {
	if c.ID.Alt == 0 && c.ID.Item == "" && !named(c.step) {
		if r, ok := m.opts.Precomputed[c.step.Name]; ok {
			return &r
		}
	}
	return c.step.Result
}

// grow adds the items of a foreach step.
func (m *Model) grow(c *cell) {
	items, err := c.step.Foreach.Items.Expand(m.scope(c))
	limit := c.step.Foreach.MaxItems
	seen := map[string]bool{}
	bad := err != nil || (limit > 0 && len(items) > limit) || len(m.cells)+len(items) > dagrun.MaxTasks
	for _, it := range items {
		bad = bad || seen[it.Key] || it.Key == "" || len(it.Key) > dagrun.MaxKeyBytes
		seen[it.Key] = true
	}
	if bad {
		m.fail(c, dagrun.Result{Kind: dagrun.KindConfig})
		return
	}
	c.State, c.Growth = dagrun.TaskRunning, &dagrun.Growth{Generation: m.run.Generation, ResetBy: c.ResetBy, Items: items}
	m.sprout(c)
}

// body starts a body that needs no slot. All others are offered when everything has settled.
func (m *Model) body(c *cell) {
	switch c.step.Body {
	case dagrun.BodyNoop:
		m.beginAttempt(c)
		m.bodyEnds(c, dagrun.Result{}, "ran")
	default:
		m.beginAttempt(c)
		c.State = dagrun.TaskWaiting
		if c.step.Timeout > 0 {
			c.Deadline = m.now + dagrun.Time(c.step.Timeout)
		}
		if c.step.Body != dagrun.BodyApproval {
			m.open(c)
		}
	}
}

func (m *Model) beginAttempt(c *cell) {
	m.unready(c)
	c.Attempt++
	c.Reason = ""
	c.started, c.gone, c.answered, c.killAt = false, false, false, 0
	c.AttemptAt, c.Generation, c.Ref, c.NextAt, c.Deadline = m.now, m.run.Generation, "", 0, 0
	c.StartedAt = cmp.Or(c.StartedAt, m.now)
	if c.ID.Item != "" {
		n := m.node(c.ID.Step)
		n.StartedAt = cmp.Or(n.StartedAt, m.now)
	}
}

func (m *Model) open(c *cell) {
	c.opening = true
	m.act(dagrun.Action{Kind: dagrun.ActOpen, Task: c.ID, Attempt: c.Attempt, Ref: c.Ref})
}

func (m *Model) act(a dagrun.Action) { m.actions = append(m.actions, a) }

// startPublish starts a publish that needs no pool.
func (m *Model) startPublish(c *cell) bool {
	if c.State != dagrun.TaskFinishing || c.published || len(c.step.PublishPools) > 0 || m.held() {
		return false
	}
	c.published, c.gone = true, false
	m.act(dagrun.Action{Kind: dagrun.ActStart, Task: c.ID, Attempt: c.Attempt, Publish: true})
	return true
}

// offer makes wants, best first, up to the limits of the run and of each foreach. A want that was made stays. A child run
// begins instead of being offered, which may change other tasks.
func (m *Model) offer() bool {
	if m.held() {
		return false
	}
	for _, c := range m.sorted() {
		if c.State == dagrun.TaskFinishing && len(c.step.PublishPools) > 0 && !c.published {
			c.offered = true
		}
	}
	ready := slices.DeleteFunc(m.sorted(), func(c *cell) bool {
		return c.State != dagrun.TaskReady || !c.cleared || c.offered
	})
	slices.SortStableFunc(ready, func(a, b *cell) int {
		return cmp.Or(cmp.Compare(m.priority(b), m.priority(a)), cmp.Compare(a.since, b.since))
	})
	for _, c := range ready {
		all, same := m.holding(c.ID.Step)
		limit := 0
		if each := m.steps[c.ID.Step].Foreach; each != nil {
			limit = each.MaxConcurrent
		}
		room := (m.spec.MaxActive == 0 || all < m.spec.MaxActive) && (limit == 0 || same < limit)
		if room && c.step.Body == dagrun.BodyChild {
			m.body(c)
			return true
		}
		c.offered = room
	}
	return false
}

// holding counts the tasks that have slots, were offered some, or have a child run: all of the run, and those of one
// step.
func (m *Model) holding(step int) (all, same int) {
	for _, c := range m.cells {
		if !c.holds() {
			continue
		}
		all++
		if c.ID.Step == step {
			same++
		}
	}
	return all, same
}

func (c *cell) holds() bool {
	return (c.State == dagrun.TaskRunning && !c.isNode()) || (c.State == dagrun.TaskReady && c.offered) ||
		(c.State == dagrun.TaskWaiting && c.AttemptAt != 0 && c.step.Body == dagrun.BodyChild)
}

// limited reports whether max_concurrent and max_active_steps apply to a task.
func (c *cell) limited() bool {
	return c.step.Body == dagrun.BodyTask || c.step.Body == dagrun.BodyChild
}

func (m *Model) priority(c *cell) int {
	if c.step.PriorityExpr == nil {
		return c.step.Priority
	}
	n, err := c.step.PriorityExpr.Number(m.scope(c))
	if err != nil {
		return 0
	}
	return n
}

// Wants returns the tasks that are offered a slot, in graph order.
func (m *Model) Wants() []dagrun.TaskID {
	var ids []dagrun.TaskID
	for _, c := range m.sorted() {
		if c.offered {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// granted turns a want into a running body or publish.
func (m *Model) granted(c *cell) error {
	if c == nil || !c.offered {
		return dagrun.ErrStale
	}
	c.offered = false
	publish := c.State == dagrun.TaskFinishing
	if publish {
		c.published, c.gone, c.Reason = true, false, "ran"
	} else {
		m.beginAttempt(c)
		c.State = dagrun.TaskRunning
	}
	m.act(dagrun.Action{Kind: dagrun.ActStart, Task: c.ID, Attempt: c.Attempt, Publish: publish})
	return nil
}
