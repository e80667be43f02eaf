package storetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

const maxDepth = 100 // how many child runs may be nested

type runKey struct{ submitter, key string }

// keyed is the run that was made for a key, and the content of that request.
type keyed struct {
	run     queue.RunID
	request string
}

// childKey identifies the request of a task's attempt for a child run.
type childKey struct {
	task       attemptKey
	generation int
}

// Enqueue makes a run for the user of the Memory.
func (m *Memory) Enqueue(ctx context.Context, r queue.Request) (queue.RunID, error) {
	return m.EnqueueAs(ctx, m.user, r)
}

// EnqueueAs makes a run in the name of a user.
func (m *Memory) EnqueueAs(ctx context.Context, user string, r queue.Request) (queue.RunID, error) {
	params, err := object(r.Params)
	if err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	if err := m.enter(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	asked := contentOf(&r, params)
	if id, err := m.keyed(user, r.Key, asked); id != 0 || err != nil {
		return id, err
	}
	made, err := m.insert(&r, params, 0)
	if err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	made.trigger, made.submittedBy = "sql", user
	if r.Manual {
		made.trigger = "manual"
	}
	if r.Key != "" {
		m.keys[runKey{user, r.Key}] = keyed{made.id, asked}
	}
	m.list(made, stageNew, made.place(m.now()), reachRanked)
	return made.id, nil
}

// contentOf returns the part of a request in which two requests with the same key must agree.
func contentOf(r *queue.Request, params json.RawMessage) string {
	return fmt.Sprint(r.DAG, string(params), deref(r.Priority), r.Queue, r.Selector, r.LogicalAt.UnixMicro(), string(r.Precomputed), r.Version)
}

// keyed returns the run that was made for a key, 0 for none. A request with other content is an error.
func (m *Memory) keyed(submitter, key, content string) (queue.RunID, error) {
	held, ok := m.keys[runKey{submitter, key}]
	switch {
	case !ok || key == "":
		return 0, nil
	case held.request != content:
		return 0, refusal(queue.ErrConflict, "OA004", "use a new key for each request", "run_key %q belongs to run %d, which was asked for with another dag, params or overrides", key, held.run)
	}
	return held.run, nil
}

func deref(p *int) any {
	if p == nil {
		return nil
	}
	return *p
}

// object returns v as a JSON object in one spelling. nil becomes {}.
func object(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok && len(raw) == 0 || v == nil {
		return json.RawMessage("{}"), nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return nil, refusal(nil, "OA003", `like {"day": "2026-11-20"}`, "params must be an object")
	}
	return json.Marshal(fields)
}

// insert checks a request and makes its run. The caller must still list it.
func (m *Memory) insert(r *queue.Request, params json.RawMessage, parent queue.RunID) (*run, error) {
	v, err := m.target(r.DAG, r.Version)
	if err != nil {
		return nil, err
	}
	if err := checkParams(v, params); err != nil {
		return nil, err
	}
	for _, at := range []time.Time{r.RunAt, r.LogicalAt} {
		if year := at.UTC().Year(); !at.IsZero() && (year < 20 || year > 9899) {
			return nil, refusal(nil, "OA013", "leave it out to start at once", "run_at and logical_at must be moments of the years 20 to 9899")
		}
	}
	if err := checkDepth("precomputed", r.Precomputed); err != nil {
		return nil, err
	}
	l, err := m.laneFor(v, r)
	if err != nil {
		return nil, err
	}
	now := m.now()
	made := &run{
		id: queue.RunID(len(m.runs) + 1), uid: m.newID(), version: v, lane: l, params: params, precomputed: r.Precomputed, labels: maps.Clone(v.spec.Labels),
		runAt: later(r.RunAt, now), createdAt: now, submittedBy: m.user, key: r.Key, traceparent: r.Traceparent,
		rec: dagrun.RunRecord{Generation: 1}, tasks: map[dagrun.TaskID]*taskRow{}, attempts: map[attemptKey]attemptRow{},
	}
	made.root = made.id
	if made.labels == nil {
		made.labels = map[string]string{}
	}
	maps.Copy(made.labels, r.Labels)
	made.logicalAt = first(r.LogicalAt, r.RunAt, now)
	if l.keyed {
		if made.limitKey, err = m.keyOf(v, params, made.labels, parent); err != nil {
			return nil, err
		}
	}
	m.expireAfter(made, made.runAt)
	m.runs = append(m.runs, made)
	return made, nil
}

func checkParams(v *version, params json.RawMessage) error {
	var given map[string]any
	if err := json.Unmarshal(params, &given); err != nil {
		return err
	}
	if _, err := v.spec.Params(given); err != nil {
		return refusal(nil, "OA003", "the DAG says which params it takes", "%v", err)
	}
	var texts map[string]json.RawMessage
	if err := json.Unmarshal(params, &texts); err != nil {
		return err
	}
	for name, text := range texts {
		if err := checkDepth(fmt.Sprintf("param %q", name), text); err != nil {
			return err
		}
	}
	return nil
}

func checkDepth(what string, text json.RawMessage) error {
	if err := dagspec.CheckDepth(dagrun.JSON(text)); err != nil {
		return refusal(nil, "OA012", "pass it as a text", "%s: %v", what, err)
	}
	return nil
}

// expireAfter sets the deadline by which a run must have started, counted from the given moment.
func (m *Memory) expireAfter(r *run, from time.Time) {
	if r.version.timeout > 0 {
		r.queueDeadline = from.Add(r.version.timeout)
		m.expiring.push(alarm{r.queueDeadline, r})
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func first(times ...time.Time) time.Time {
	i := slices.IndexFunc(times, func(t time.Time) bool { return !t.IsZero() })
	return times[i]
}

func (m *Memory) target(name string, number int) (*version, error) {
	d := m.dags[name]
	if d == nil || number != 0 && m.versions[versionKey{d.id, number}] == nil {
		return nil, refusal(queue.ErrNotFound, "OA001", "apply it first", "there is no dag %s", name)
	}
	if d.removed {
		return nil, refusal(nil, "OA002", "apply it again", "dag %s was removed", name)
	}
	if number != 0 && number < d.oldest {
		return nil, refusal(nil, "OA002", "leave the version out", "version %d of dag %s is retired, the oldest is %d", number, name, d.oldest)
	}
	if number != 0 {
		return m.versions[versionKey{d.id, number}], nil
	}
	return d.current, nil
}

// laneFor returns the lane for a request, or an error if the queue is full.
func (m *Memory) laneFor(v *version, r *queue.Request) (*lane, error) {
	l := v.lane
	if r.Queue != "" || r.Priority != nil || r.Selector != nil {
		name, priority, selector := l.laneKey.queue, l.priority, l.selector
		if r.Queue != "" {
			name = r.Queue
		}
		set(&priority, r.Priority)
		if r.Selector != nil {
			selector = r.Selector
		}
		if m.queues[name] == nil || priority < -100 || priority > 100 {
			return nil, refusal(nil, "OA013", "name a queue that exists, and a priority from -100 to 100", "no queue %s, or no priority %d", name, priority)
		}
		l = m.lane(v, name, priority, selector)
	}
	if l.queue.maxQueued > 0 && m.queued(l.queue) >= l.queue.maxQueued {
		return nil, refusal(nil, "OA006", "try again later", "queue %s is full", l.queue.name)
	}
	return l, nil
}

func (m *Memory) queued(q *queueRow) int {
	n := 0
	for _, r := range m.runs {
		if r.lane.queue == q && r.rec.State == dagrun.RunQueued {
			n++
		}
	}
	return n
}

// Which workers are told of a queued run. Each value includes the ones before it.
const (
	reachHungry = iota // workers that have a free slot
	reachRanked        // also workers without a free slot, if their next waiting task has a lower priority than the run
	reachAll           // also all other workers, since the run may need no slot
)

// rankedMost bounds how many workers without a free slot are told of one run that ranks above their waiting tasks.
const rankedMost = 16

// list puts a queued run on its shelf and tells one worker.
func (m *Memory) list(r *run, stage int, readyAt time.Time, reach int) {
	r.shelve(stage, readyAt)
	m.spread(r.lane, 1, reach)
}

// spread tells workers of new runs in a lane, one worker per run. Workers with free slots come first.
func (m *Memory) spread(l *lane, rows, reach int) {
	asked := rows
	for kind := reachHungry; kind <= reach; kind++ {
		if kind == reachRanked && reach == reachRanked && rows == asked {
			rows = max(rows, rankedMost) // it is unknown on which worker a slot ends next
		}
		for _, w := range m.byTold(l) {
			if rows > 0 && w.State == queue.WorkerLive && w.Only == 0 && w.serves(l) && w.hears(l, kind) {
				rows--
				w.tell(func(h *queue.Heard) { h.Lanes = true; h.Rows++ })
				if w.told == nil {
					w.told = map[int]int{}
				}
				w.told[l.id]++
			}
		}
	}
}

// byTold sorts the workers by how many runs of a lane they were told of since their last poll, the fewest first.
func (m *Memory) byTold(l *lane) []*worker {
	return slices.SortedStableFunc(slices.Values(m.workers), func(a, b *worker) int { return cmp.Compare(a.told[l.id], b.told[l.id]) })
}

// hears reports whether a worker is of the given kind (reachHungry, reachRanked or reachAll) for a lane.
func (w *worker) hears(l *lane, kind int) bool {
	ranked := w.least != nil && *w.least < l.priority
	switch kind {
	case reachHungry:
		return w.hungry > 0
	case reachRanked:
		return w.hungry == 0 && ranked
	default:
		return w.hungry == 0 && !ranked
	}
}

// child makes the run that a task asks for, or finds the run that the same attempt asked for before.
func (m *Memory) child(p *run, c *queue.Child) (queue.RunID, error) {
	key := childKey{attemptKey{p.id, c.Task, c.Attempt}, p.rec.Generation}
	if id, ok := m.children[key]; ok && c.Key == "" {
		return id, nil
	}
	if p.depth >= maxDepth {
		return 0, refusal(nil, "OA012", "a DAG that starts itself needs an end", "run %d is %d children deep already", p.id, maxDepth)
	}
	params, err := object(json.RawMessage(c.Params))
	if err != nil {
		return 0, err
	}
	asked := queue.Request{DAG: c.DAG, Priority: c.Priority, Queue: c.Queue, Labels: c.Labels, Traceparent: p.traceparent, Key: c.Key, RunAt: c.RunAt}
	content := contentOf(&asked, params)
	if c.Key != "" {
		if !c.Detached {
			return 0, refusal(nil, "OA013", "use dag.enqueue", "a child that its parent waits for has no run_key")
		}
		if id, err := m.keyed(p.submittedBy, c.Key, content); id != 0 || err != nil {
			return id, err
		}
	}
	asked.LogicalAt = p.logicalAt
	var parent queue.RunID
	if !c.Detached {
		parent = p.id
	}
	made, err := m.insert(&asked, params, parent)
	if err != nil {
		return 0, err
	}
	made.trigger, made.submittedBy, made.depth = "child", p.submittedBy, p.depth+1
	if !c.Detached {
		made.parent, made.parentTask, made.root = p.id, c.Task, p.root
	}
	if c.Key == "" {
		m.children[key] = made.id
	} else {
		m.keys[runKey{p.submittedBy, c.Key}] = keyed{made.id, content}
	}
	m.list(made, stageNew, made.place(m.now()), reachRanked)
	return made.id, nil
}

// serves reports whether a worker may claim runs of a lane.
func (w *worker) serves(l *lane) bool {
	if w.Only != 0 || len(w.Queues) > 0 && !slices.Contains(w.Queues, l.laneKey.queue) || w.Slots < l.slots {
		return false
	}
	for k, v := range l.selector {
		if w.Labels[k] != v {
			return false
		}
	}
	return !slices.ContainsFunc(l.needs, func(need string) bool { return !slices.Contains(w.Offers, need) })
}
