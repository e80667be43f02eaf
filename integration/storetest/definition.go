package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

type dag struct {
	id      int64
	name    string
	current *version
	last    int
	oldest  int // the oldest version in service; earlier ones are retired
	paused  bool
	removed bool
	limit   int      // how many runs may be active at once; 0: no limit
	keyed   bool     // its current version has a limit by key
	pools   []string // pools that each body needs with which a run of its current version begins
}

type versionKey struct {
	dag     int64
	version int
}

type version struct {
	dag     *dag
	number  int
	hash    string
	spec    *dagspec.Spec
	graph   *dagrun.Graph
	needs   []string
	slots   int // slots of the widest step
	lane    *lane
	timeout time.Duration // how long a run may wait in the queue
}

type queueRow struct {
	name       string
	paused     bool
	maxRunning int
	maxQueued  int
}

type laneKey struct {
	queue           string
	priority        int
	selector, needs string
	slots           int
	dag             int64 // the DAG's id if it limits its runs, else 0
	keyed           bool  // its runs have keys for the limits of the DAG
}

type lane struct {
	id int
	laneKey
	queue    *queueRow
	selector map[string]string
	needs    []string
	owner    *dag // the only DAG that has runs in this lane; nil: several may have
	shelves  [stages]shelf
}

// unsupported lists features that no worker executes yet.
var unsupported = []string{"action:river.job"}

// PutDAG registers a version of a DAG and makes it the current one.
func (m *Memory) PutDAG(ctx context.Context, spec *dagspec.Spec, _, _ string) (queue.Put, error) {
	graph, err := spec.Graph()
	if err != nil {
		return queue.Put{}, fmt.Errorf("put dag: %w", err)
	}
	needs := spec.Needs()
	for _, n := range needs {
		if slices.Contains(unsupported, n) {
			return queue.Put{}, refusal(nil, "OA009", "leave it out of the DAG", "dag %s uses what cannot be executed: %s", spec.Name, n)
		}
	}
	if err := m.enter(ctx); err != nil {
		return queue.Put{}, err
	}
	defer m.mu.Unlock()
	d := m.dags[spec.Name]
	if d == nil {
		d = &dag{id: int64(len(m.dags) + 1), name: spec.Name}
		m.dags[spec.Name] = d
	}
	if d.removed {
		d.removed = false
		m.placeSchedules(d)
	}
	if d.current != nil && d.current.hash == spec.Hash() {
		return queue.Put{ID: d.id, Version: d.current.number}, nil
	}
	d.last++
	d.limit, d.keyed, d.pools = spec.MaxActiveRuns, spec.Concurrency != nil, firstPools(spec)
	v := &version{
		dag: d, number: d.last, hash: spec.Hash(), spec: spec, graph: graph, needs: needs, slots: widest(graph),
		timeout: spec.QueueTimeout.Std(),
	}
	m.queueNamed(spec.Queue)
	v.lane = m.lane(v, spec.Queue, spec.Priority, spec.WorkerSelector)
	d.current = v
	m.versions[versionKey{d.id, v.number}] = v
	return queue.Put{ID: d.id, Version: v.number, IsNew: true}, m.syncSchedules(d)
}

// firstPools returns the pools that a run needs to begin with anything.
func firstPools(spec *dagspec.Spec) (names []string) {
	for name, need := range spec.Pools() {
		if need.First {
			names = append(names, name)
		}
	}
	return names
}

func widest(g *dagrun.Graph) int {
	slots := 1
	for i := range g.Len() {
		step := g.Step(i)
		slots = max(slots, step.Slots)
		for _, rule := range step.OnError {
			for _, with := range rule.With {
				slots = max(slots, with.Slots)
			}
		}
	}
	return slots
}

func (m *Memory) queueNamed(name string) *queueRow {
	if m.queues[name] == nil {
		m.queues[name] = &queueRow{name: name}
	}
	return m.queues[name]
}

// lane returns the lane for runs with the same needs, and makes it if there is none.
func (m *Memory) lane(v *version, queueName string, priority int, selector map[string]string) *lane {
	key := laneKey{queueName, priority, string(spell(selector)), strings.Join(v.needs, ","), v.slots, 0, v.dag.keyed}
	owned := v.dag.limit > 0 || v.dag.keyed || len(v.dag.pools) > 0
	if owned {
		key.dag = v.dag.id
	}
	if l := m.lanesOf[key]; l != nil {
		return l
	}
	l := &lane{id: len(m.lanes) + 1, laneKey: key, queue: m.queues[queueName], selector: maps.Clone(selector), needs: v.needs}
	if owned {
		l.owner = v.dag
	}
	for stage := range l.shelves {
		l.shelves[stage] = shelf{lane: l, stage: stage}
	}
	m.lanesOf[key] = l
	m.lanes = append(m.lanes, l)
	slices.SortStableFunc(m.lanes, func(a, b *lane) int { return cmp.Compare(b.priority, a.priority) })
	return l
}

// SetQueue makes or changes a queue.
func (m *Memory) SetQueue(ctx context.Context, c queue.QueueChange) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	q := m.queueNamed(c.Name)
	set(&q.paused, c.Paused)
	set(&q.maxRunning, c.MaxRunning)
	set(&q.maxQueued, c.MaxQueued)
	return nil
}

// SetDAG pauses or resumes a DAG, or changes whether it is in service.
func (m *Memory) SetDAG(ctx context.Context, c queue.DAGChange) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	d := m.dags[c.Name]
	if d == nil {
		return refusal(queue.ErrNotFound, "OA001", "apply it first", "there is no dag %s", c.Name)
	}
	if c.Oldest != nil && (*c.Oldest < 1 || *c.Oldest > d.current.number) {
		return refusal(nil, "OA013", "name one from 1 to the current version", "dag %s has no version %d that could be the oldest", c.Name, *c.Oldest)
	}
	set(&d.oldest, c.Oldest)
	set(&d.paused, c.Paused)
	if c.Removed != nil {
		d.removed = *c.Removed
		m.placeSchedules(d)
	}
	return nil
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}
