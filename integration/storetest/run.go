package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// run is the row of a run, with all that belongs to it.
type run struct {
	id      queue.RunID
	uid     uuid.UUID
	version *version
	lane    *lane
	follow  bool // reports whether a reader follows its logs

	params, precomputed  json.RawMessage
	labels               map[string]string
	limitKey             *limitKey // nil: its lane is not keyed
	runAt, logicalAt     time.Time
	schedule             *scheduleRow // the schedule that made it; nil: none
	previousAt           time.Time
	attended             int // the last generation with an end that Attend has handled
	createdAt            time.Time
	trigger, submittedBy string
	key, traceparent     string
	parent, root         queue.RunID
	parentTask           dagrun.TaskID
	depth                int
	rec                  dagrun.RunRecord // the run as the core keeps it
	wakeAt               time.Time
	queueDeadline        time.Time
	stage                int          // stage in the queue, or the last one
	readyAt              time.Time    // orders the runs of a shelf
	shelf                *shelf       // where it is queued; nil: it is not queued
	acted                bool         // reports whether a batch since its claim told more than its start
	claim                *queue.Claim // nil: no worker holds it
	owner                *worker
	epoch, losses        int
	inbox                int64
	tasks                map[dagrun.TaskID]*taskRow
	attempts             map[attemptKey]attemptRow
	controls             []*queue.Control
	events               []queue.Event
}

type taskRow struct {
	dagrun.TaskRecord
	epoch    int
	worker   string
	day      time.Time
	settled  *queue.Settled
	slot     int
	lastLine string
	asks     *dagrun.Asks // the open question of an approval; nil: none
}

type attemptKey struct {
	run     queue.RunID
	task    dagrun.TaskID
	attempt int
}

type attemptRow struct {
	dagrun.AttemptRecord
	worker string
}

// over reports whether the run is finished. A finished run does not change until it is retried.
func (r *run) over() bool { return r.rec.State.Terminal() }

// row returns the row of a task, and makes it if there is none; known reports whether there was one.
func (r *run) row(id dagrun.TaskID) (row *taskRow, known bool) {
	row, known = r.tasks[id]
	if !known {
		row = &taskRow{}
		r.tasks[id] = row
	}
	return row, known
}

// sortedTasks returns the rows in the order of the graph.
func (r *run) sortedTasks() []*taskRow {
	return slices.SortedFunc(maps.Values(r.tasks), func(a, b *taskRow) int { return inOrder(a.ID, b.ID) })
}

// listedTasks returns the rows as they are listed for people: items in the order of their list.
func (r *run) listedTasks() []*taskRow {
	place := map[dagrun.TaskID]int{}
	for id, row := range r.tasks {
		if id.Item != "" || id.Alt > 0 || row.Growth == nil {
			continue
		}
		for i, item := range row.Growth.Items {
			place[dagrun.TaskID{Step: id.Step, Item: item.Key}] = i + 1
		}
	}
	at := func(id dagrun.TaskID) int {
		id.Alt = 0
		if id.Item == "" {
			return 0
		}
		return cmp.Or(place[id], math.MaxInt)
	}
	rows := r.sortedTasks()
	slices.SortStableFunc(rows, func(a, b *taskRow) int {
		return cmp.Or(cmp.Compare(a.ID.Step, b.ID.Step), cmp.Compare(at(a.ID), at(b.ID)))
	})
	return rows
}

func inOrder(a, b dagrun.TaskID) int {
	return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Alt, b.Alt))
}

func (r *run) undecided() []queue.Control {
	var open []queue.Control
	for _, c := range r.controls {
		if c.DecidedAt.IsZero() {
			open = append(open, *c)
		}
	}
	return open
}

// log appends to the run's own event log.
func (m *Memory) log(r *run, e queue.Event) {
	m.events++
	e.ID = m.events
	if e.At.IsZero() {
		e.At = m.now()
	}
	r.events = append(r.events, e)
}

// Get returns the run as users see it.
func (m *Memory) Get(ctx context.Context, id queue.RunID) (*queue.Run, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	r, err := m.run(id)
	if err != nil {
		return nil, err
	}
	v := m.shown(r)
	return &v, nil
}

func (m *Memory) shown(r *run) queue.Run {
	v := queue.Run{
		ID: r.id, UID: r.uid, DAG: r.version.dag.name, Version: r.version.number, Generation: r.rec.Generation,
		State: r.rec.State.String(), Reason: r.rec.Reason, Tolerated: r.rec.Tolerated,
		Queue: r.lane.laneKey.queue, Priority: r.lane.priority, Params: r.params, Labels: r.labels, Key: r.key, Trigger: r.trigger,
		Epoch: r.epoch, SubmittedBy: r.submittedBy, Parent: r.parent, Root: r.root, Counts: r.rec.Counts,
		RunAt: r.runAt, LogicalAt: r.logicalAt, CreatedAt: r.createdAt,
		StartedAt: moment(r.rec.StartedAt), FinishedAt: moment(r.rec.FinishedAt),
	}
	if r.owner != nil {
		v.Worker = r.owner.Name
	}
	switch {
	case r.rec.State == dagrun.RunRunning:
		v.Reason = "" // the run no longer waits
	case r.rec.State != dagrun.RunQueued:
	case r.epoch == 0 && r.runAt.After(m.now()):
		v.State, v.Reason = "scheduled", "starts at "+r.runAt.UTC().Format(time.RFC3339)
	default:
		v.Reason = cmp.Or(m.ownWorker(r), m.allUnfit(r.lane), m.waitsForKey(r), m.waitsForPool(r), m.placeInLine(r))
	}
	return v
}

// placeInLine explains where a queued run stands among the due runs of its queue that a worker of this run may serve, too, and
// that no pause and no limit holds up. It also counts the slots of these workers, and how many are taken.
func (m *Memory) placeInLine(r *run) string {
	before, busy, slots := 0, 0, 0
	var crew []*worker
	for _, w := range m.workers {
		if w.State == queue.WorkerLive && w.Unfit == "" && w.serves(r.lane) {
			crew, busy, slots = append(crew, w), busy+w.Busy, slots+w.Slots
		}
	}
	room := map[*dag]int{}
	for _, l := range m.lanes {
		if l.queue != r.lane.queue || l != r.lane && !slices.ContainsFunc(crew, func(w *worker) bool { return w.serves(l) }) {
			continue
		}
		for stage := range l.shelves {
			if l.priority < r.lane.priority || l.priority == r.lane.priority && stage > r.stage {
				continue
			}
			for _, other := range l.shelves[stage].runs {
				if !other.readyAt.After(m.now()) && (l.priority > r.lane.priority || stage < r.stage || byPlace(other, r) < 0) && !m.isHeldUp(other, r, room) {
					before++
				}
			}
		}
	}
	place := "behind 20 others or more"
	if before < 20 {
		place = ordinal(before+1) + " in line"
	}
	return fmt.Sprintf("%s in queue %s; %d of %d slots taken", place, r.lane.queue.name, min(busy, slots), slots)
}

// isHeldUp reports whether a pause or the limit of its DAG keeps a run from going before another. Of a DAG with a limit, so many go as room
// has left.
func (m *Memory) isHeldUp(r, of *run, room map[*dag]int) bool {
	d := r.version.dag
	if r.stage < stageNew || d == of.version.dag || d.limit == 0 {
		return r.isPaused()
	}
	if _, known := room[d]; !known {
		room[d] = d.limit - m.underWay(d)
	}
	room[d]--
	return r.isPaused() || room[d] < 0
}

// ordinal spells a number up to 20: 1st, 12th.
func ordinal(n int) string {
	if n <= 3 {
		return [...]string{"1st", "2nd", "3rd"}[n-1]
	}
	return strconv.Itoa(n) + "th"
}

// ownWorker explains that a run waits for a worker that serves only this family of runs; "" if no live worker does.
func (m *Memory) ownWorker(r *run) string {
	for _, w := range m.workers {
		switch {
		case w.State != queue.WorkerLive || w.Only == 0 || w.Only != r.id && (r.parent == 0 || w.Only != r.parent && w.Only != r.root):
		case w.Unfit != "":
			return fmt.Sprintf("worker %s claims nothing: %s", w.Name, w.Unfit)
		default:
			return "waits for its worker " + w.Name
		}
	}
	return ""
}

// allUnfit explains why no worker claims runs of a lane. It returns "" unless all workers that serve the lane report a
// reason.
func (m *Memory) allUnfit(l *lane) (why string) {
	for _, w := range m.workers {
		switch {
		case w.State != queue.WorkerLive || !w.serves(l):
		case w.Unfit == "":
			return ""
		case why == "" || w.Name+w.Unfit < why:
			why = fmt.Sprintf("worker %s claims nothing: %s", w.Name, w.Unfit)
		}
	}
	return why
}

// Tasks returns the tasks of a run in the order of its DAG, pending ones included.
func (m *Memory) Tasks(ctx context.Context, id queue.RunID) ([]queue.Task, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	r, err := m.run(id)
	if err != nil {
		return nil, err
	}
	g, rows := r.version.graph, r.listedTasks()
	var shown []queue.Task
	for step := range g.Len() {
		before := len(shown)
		for _, row := range rows {
			if row.ID.Step == step {
				shown = append(shown, r.shownTask(row))
			}
		}
		if len(shown) == before && !r.isHandler(step) {
			shown = append(shown, r.unbegun(step))
		}
	}
	return shown, nil
}

func (r *run) isHandler(step int) bool { return step >= len(r.version.spec.Steps) }

func (r *run) kind(id dagrun.TaskID) string {
	switch {
	case id.Alt > 0:
		return "replacement"
	case r.isHandler(id.Step):
		return "handler"
	case r.version.graph.Step(id.Step).Foreach != nil:
		return "foreach"
	default:
		return "step"
	}
}

// unbegun returns a step that has no row.
func (r *run) unbegun(step int) queue.Task {
	t := queue.Task{
		Step: r.version.graph.StepName(step), Kind: r.kind(dagrun.TaskID{Step: step}),
		State: dagrun.TaskPending.String(), Outputs: json.RawMessage("{}"),
	}
	if r.over() {
		t.State, t.Reason = dagrun.TaskCanceled.String(), r.rec.Reason
	}
	return t
}

func (r *run) shownTask(row *taskRow) queue.Task {
	t := queue.Task{
		Step: r.stepName(row.ID), Item: row.ID.Item, Kind: r.kind(row.ID), State: row.State.String(), Reason: row.Reason,
		FailureKind: string(row.Kind), Attempt: row.Attempt, Outputs: json.RawMessage(cmp.Or(row.Outputs, "{}")), Worker: row.worker,
		NextAttemptAt: moment(row.NextAt), StartedAt: moment(row.StartedAt), AttemptAt: moment(row.AttemptAt), FinishedAt: moment(row.FinishedAt),
		Approval: row.question(),
	}
	if row.HasExit {
		code := row.ExitCode
		t.ExitCode = &code
	}
	if row.ID == (dagrun.TaskID{Step: row.ID.Step}) && t.Kind == "foreach" && row.Growth != nil {
		t.Items = len(row.Growth.Items)
	}
	if row.ID.Alt > 0 {
		t.Replaces = r.version.graph.StepName(row.ID.Step)
		if row.ID.Item != "" {
			t.Replaces += "/" + row.ID.Item
		}
	}
	return t
}

// stepName returns the name of a task without its item.
func (r *run) stepName(id dagrun.TaskID) string {
	name := r.version.graph.StepName(id.Step)
	if id.Alt > 0 {
		name += "~" + strconv.Itoa(id.Alt)
	}
	return name
}

// Result returns how the run ended. Outputs are nil until it has.
func (m *Memory) Result(ctx context.Context, id queue.RunID) (*queue.Result, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	r, err := m.run(id)
	if err != nil {
		return nil, err
	}
	res := &queue.Result{
		State: r.rec.State.String(), Reason: r.rec.Reason, Tolerated: r.rec.Tolerated,
		StartedAt: moment(r.rec.StartedAt), FinishedAt: moment(r.rec.FinishedAt),
	}
	if r.over() {
		res.Outputs = map[string]json.RawMessage{}
		for _, row := range r.tasks {
			if row.ID.Item == "" && row.Outputs != "" {
				res.Outputs[r.stepName(row.ID)] = json.RawMessage(row.Outputs)
			}
		}
	}
	return res, nil
}

// Attempts returns the attempts that a later attempt superseded.
func (m *Memory) Attempts(ctx context.Context, id queue.RunID) ([]queue.Attempt, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	r, err := m.run(id)
	if err != nil {
		return nil, err
	}
	rows := slices.SortedFunc(maps.Values(r.attempts), func(a, b attemptRow) int {
		return cmp.Or(inOrder(a.ID, b.ID), cmp.Compare(a.Attempt, b.Attempt))
	})
	shown := make([]queue.Attempt, len(rows))
	for i, a := range rows {
		shown[i] = queue.Attempt{
			Step: r.stepName(a.ID), Item: a.ID.Item, Attempt: a.Attempt, Generation: a.Generation, State: a.State.String(),
			FailureKind: string(a.Kind), Signal: a.Signal, Reason: a.Reason, Worker: a.worker,
			StartedAt: moment(a.StartedAt), FinishedAt: moment(a.FinishedAt),
		}
		if a.HasExit {
			shown[i].ExitCode = &a.ExitCode
		}
	}
	return shown, nil
}

// Events returns the run's own log, after the event with the given id.
func (m *Memory) Events(ctx context.Context, id queue.RunID, after int64) ([]queue.Event, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	r, err := m.run(id)
	if err != nil {
		return nil, err
	}
	from := slices.IndexFunc(r.events, func(e queue.Event) bool { return e.ID > after })
	if from < 0 {
		return nil, nil
	}
	return slices.Clone(r.events[from:]), nil
}

// Controls returns the requests to a run, the oldest first.
func (m *Memory) Controls(ctx context.Context, id queue.RunID) ([]queue.Control, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	r, err := m.run(id)
	if err != nil {
		return nil, err
	}
	all := make([]queue.Control, len(r.controls))
	for i, c := range r.controls {
		all[i] = *c
		if accepted(c) {
			all[i].Outcome = dagrun.Accepted
		}
	}
	return all, nil
}
