package coretest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Model is the reference: the same events in, the same states out. Its state is a map of cells, each with the row of a
// task and the facts that only this drive knows.
type Model struct {
	steps []dagrun.Step // the steps, then the handlers
	plain int           // how many of them are steps
	spec  dagrun.Spec
	opts  dagrun.Options

	now    dagrun.Time
	run    dagrun.RunRecord
	cells  map[dagrun.TaskID]*cell
	begun  bool
	judges bool // the next event has tasks judged that Advance let go on
	left   bool // Advance was called after a verdict or a leave was proposed
	drain  bool
	asked  map[int64]bool                      // ids of the controls decided in this drive
	giveUp string                              // why the drive limit ends the run, until EvBegin
	shelf  map[dagrun.TaskID]dagrun.TaskRecord // rows of tasks that are not in the run now

	// What happened since the last Advance.
	actions   []dagrun.Action
	Attempts  []dagrun.AttemptRecord
	Decisions []dagrun.Decision
}

// cell is one task.
type cell struct {
	dagrun.TaskRecord
	step      *dagrun.Step
	stored    bool        // the cell was loaded from a row
	since     dagrun.Time // when the task became ready
	cleared   bool        // ready: when, precomputed and cache were asked
	probing   bool        // ready: the cache was asked and has not answered
	offered   bool        // ready, or finishing: a want is out
	published bool        // finishing: the publish is under way
	late      bool        // finishing: the publish was asked to end
	opening   bool        // waiting: ActOpen is not answered
	answered  bool        // waiting: ActOpen was answered in this drive
	started   bool        // running: the body reported its start
	gone      bool        // the body has ended, with any result
	killAt    dagrun.Time // running: when its timeout kills it; 0 until it has started
	settled   *dagrun.Result
	replaces  *cell             // of a replacement: the task that failed
	chosen    *dagrun.Choice    // of a replacement by data
	plans     *dagrun.ErrorRule // of the body that a rule asks
	fresh     bool              // pending: reset while the run was under way, and not judged before the next Advance
}

// NewModel is the model of dagrun.New.
func NewModel(spec dagrun.Spec, opts dagrun.Options) *Model {
	m := &Model{
		steps: slices.Concat(spec.Steps, spec.Handlers), plain: len(spec.Steps), spec: spec, opts: opts,
		cells: map[dagrun.TaskID]*cell{}, asked: map[int64]bool{}, shelf: map[dagrun.TaskID]dagrun.TaskRecord{},
	}
	m.opts.Generation = max(1, opts.Generation)
	m.opts.ParkAfter = cmp.Or(opts.ParkAfter, 30_000)
	m.run.Generation = m.opts.Generation
	for i := range m.steps {
		m.add(dagrun.TaskID{Step: i}, &m.steps[i], dagrun.Growth{})
	}
	return m
}

// RestoreModel is the model of dagrun.Restore.
func RestoreModel(spec dagrun.Spec, opts dagrun.Options, saved dagrun.Saved) *Model {
	m := NewModel(spec, opts)
	m.run = saved.Run
	m.run.Generation = m.opts.Generation
	rows := map[dagrun.TaskID]dagrun.TaskRecord{}
	for _, r := range saved.Tasks {
		rows[r.ID] = r
		for _, t := range []dagrun.Time{r.StartedAt, r.AttemptAt, r.FinishedAt} {
			m.now = max(m.now, t)
		}
	}
	m.now = max(m.now, saved.Run.StartedAt)
	for i := range m.steps {
		m.load(dagrun.TaskID{Step: i}, rows, dagrun.Growth{})
	}
	for id, r := range rows {
		if m.cells[id] == nil {
			m.shelf[id] = r
		}
	}
	return m
}

// load fills a cell from its row, then the cells that a foreach step expanded to. A row older than the expansion that it
// would belong to is from an earlier expansion: only its attempt number counts.
func (m *Model) load(id dagrun.TaskID, rows map[dagrun.TaskID]dagrun.TaskRecord, grew dagrun.Growth) {
	row, ok := rows[id]
	if !ok {
		return
	}
	c := m.cells[id]
	if row.Generation < grew.Generation || row.ResetBy < grew.ResetBy {
		m.supersede(c, row)
		return
	}
	c.TaskRecord, c.stored = row, true
	c.Seq = 0
	if row.Growth == nil {
		return
	}
	for _, id := range m.sprout(c) {
		m.load(id, rows, *row.Growth)
	}
}

// sprout adds the cells that a step expanded to.
func (m *Model) sprout(c *cell) []dagrun.TaskID {
	var ids []dagrun.TaskID
	if c.State == dagrun.TaskReplaced {
		for k := range c.Growth.Count {
			id := dagrun.TaskID{Step: c.ID.Step, Item: c.ID.Item, Alt: c.Growth.FirstAlt + k}
			ids = append(ids, id)
			m.addReplacement(c, id, k)
		}
		return ids
	}
	for _, it := range c.Growth.Items {
		id := dagrun.TaskID{Step: c.ID.Step, Item: it.Key}
		ids = append(ids, id)
		m.add(id, c.step, *c.Growth)
	}
	return ids
}

// addReplacement adds replacement k, from 0, of the replaced task in c. Its body is the one that the rule asks, the one that the choice
// names, or body k of the rule.
func (m *Model) addReplacement(c *cell, id dagrun.TaskID, k int) {
	rule, failed := c.plans, c.replaces
	if rule == nil {
		rule, failed = &c.step.OnError[c.Growth.Rule], c
	}
	var step *dagrun.Step
	var chosen *dagrun.Choice
	switch asks := rule.Ask != nil && c.plans == nil; {
	case asks:
		step = rule.Ask
	case c.Growth.Choices != nil:
		chosen = &c.Growth.Choices[k]
		step = &rule.With[chosen.With]
	default:
		step = &rule.With[k]
	}
	m.add(id, step, *c.Growth)
	added := m.cells[id]
	added.replaces, added.chosen = failed, chosen
	if step == rule.Ask {
		added.plans = rule
	}
}

func (m *Model) add(id dagrun.TaskID, step *dagrun.Step, grew dagrun.Growth) {
	c := &cell{step: step}
	c.ID, c.Generation, c.ResetBy = id, m.opts.Generation, grew.ResetBy
	if old, ok := m.shelf[id]; ok {
		delete(m.shelf, id)
		if old.State.Terminal() && old.Generation == m.opts.Generation && old.ResetBy >= grew.ResetBy {
			c.TaskRecord = old // the commit with the row of its step was interrupted
		} else {
			m.supersede(c, old)
		}
	}
	m.cells[id] = c
}

// supersede starts a cell again that has a row from an earlier expansion. The old attempt is closed, and the attempt
// numbers continue.
func (m *Model) supersede(c *cell, old dagrun.TaskRecord) {
	m.closeRow(&cell{TaskRecord: old})
	c.Attempt = old.Attempt
}

// Step takes an event. If it returns an error, nothing changed.
func (m *Model) Step(ev dagrun.Event) error {
	if m.left {
		return dagrun.ErrOver
	}
	before := m.now
	m.now = max(m.now, ev.At)
	if err := m.apply(ev); err != nil {
		m.now = before
		return err
	}
	m.judges = false
	if m.begun {
		m.settleNodes()
		m.fireTimers()
		m.settle()
	}
	return nil
}

// Advance tells the model that the records are durable and the actions performed.
func (m *Model) Advance() {
	leave, verdict := m.proposal()
	m.left = leave != nil || verdict != nil
	m.actions, m.Attempts, m.Decisions = nil, nil, nil
	for _, c := range m.cells {
		m.judges = m.judges || c.fresh
		c.fresh = false
	}
}

// Wanted returns the actions since the last Advance, without actions that became pointless before they could be
// performed.
func (m *Model) Wanted() []dagrun.Action {
	return slices.DeleteFunc(slices.Clone(m.actions), func(a dagrun.Action) bool {
		c := m.cells[a.Task]
		switch a.Kind {
		case dagrun.ActStart:
			return c.State.Terminal() || a.Attempt != c.Attempt || c.AttemptAt == 0
		case dagrun.ActOpen:
			return c.State != dagrun.TaskWaiting || !c.opening || a.Attempt != c.Attempt
		case dagrun.ActProbe:
			return !c.probing
		case dagrun.ActCancelChild:
			return (c.State != dagrun.TaskWaiting || a.Attempt != c.Attempt) && m.run.Ending != dagrun.EndingRefused
		case dagrun.ActKill:
			return c.gone || a.Attempt != c.Attempt
		}
		return false
	})
}

// sorted returns all cells in graph order: step, item, replacement.
func (m *Model) sorted() []*cell {
	return slices.SortedFunc(maps.Values(m.cells), m.order)
}

func (m *Model) order(a, b *cell) int {
	return cmp.Or(cmp.Compare(a.ID.Step, b.ID.Step), cmp.Compare(m.index(a), m.index(b)), cmp.Compare(a.ID.Alt, b.ID.Alt))
}

// index returns -1 for a step itself, else the place of the item.
func (m *Model) index(c *cell) int {
	if c.ID.Item == "" {
		return -1
	}
	items := m.cells[dagrun.TaskID{Step: c.ID.Step}].Growth.Items
	return slices.IndexFunc(items, func(it dagrun.Item) bool { return it.Key == c.ID.Item })
}

// name returns the name of a task as people read it.
func (m *Model) name(c *cell) string {
	s := m.steps[c.ID.Step].Name
	if c.ID.Item != "" {
		s += "/" + c.ID.Item
	}
	if c.ID.Alt > 0 {
		s += fmt.Sprintf("~%d", c.ID.Alt)
	}
	return s
}

func (m *Model) isHandler(c *cell) bool { return c.ID.Step >= m.plain }

// isNode reports whether the cell is a foreach step itself, not one of its items.
func (c *cell) isNode() bool { return c.step.Foreach != nil && c.ID.Item == "" && c.ID.Alt == 0 }

// grown reports whether the foreach step has expanded into items.
func (c *cell) grown() bool { return c.isNode() && c.Growth != nil }

// handler returns a handler's cell by name, nil when the spec has none.
func (m *Model) handler(name string) *cell {
	for i := m.plain; i < len(m.steps); i++ {
		if m.steps[i].Name == name {
			return m.cells[dagrun.TaskID{Step: i}]
		}
	}
	return nil
}

// node returns the cell of a step itself.
func (m *Model) node(step int) *cell { return m.cells[dagrun.TaskID{Step: step}] }
