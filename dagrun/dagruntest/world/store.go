package world

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// store plays the database: runs with claims, fences, an inbox, and what people ask.
type store struct {
	world    *World
	runs     []*row
	beats    map[int]*beat // of workers
	lastID   int64         // of controls
	claims   int
	children map[childKey]*child
}

// beat is a worker's proof of life, and its fence.
type beat struct {
	at     dagrun.Time
	fenced bool // may write
}

// row is a run.
type row struct {
	id       int
	spec     dagrun.Spec
	graph    *dagrun.Graph
	opts     dagrun.Options
	rec      dagrun.RunRecord
	tasks    map[dagrun.TaskID]taskRow
	attempts map[attemptKey]dagrun.AttemptRecord
	settled  map[dagrun.TaskID]settlement
	controls []*request

	queued bool
	parked bool
	wakeAt dagrun.Time
	claim  int // 0 = nobody's
	worker int
	epoch  int
	inbox  int
	losses int
}

type taskRow struct {
	dagrun.TaskRecord
	epoch int
}

type attemptKey struct {
	task    dagrun.TaskID
	attempt int
}

type settlement struct {
	attempt int
	result  dagrun.Result
}

// request is a control with what became of it.
type request struct {
	dagrun.Control
	decision *dagrun.Decision
}

// child is a run that an ActOpen made; its key makes opening it twice harmless.
type child struct {
	ref      string
	run      *row
	task     dagrun.TaskID
	endsAt   dagrun.Time
	canceled bool
	ended    bool
}

type childKey struct {
	run, attempt int
	task         dagrun.TaskID
}

func newStore(w *World) *store {
	return &store{world: w, beats: map[int]*beat{}, children: map[childKey]*child{}}
}

func (s *store) enqueue(spec dagrun.Spec) {
	graph, err := dagrun.Compile(spec)
	if err != nil {
		panic(err)
	}
	s.runs = append(s.runs, &row{
		id: len(s.runs) + 1, spec: spec, graph: graph, queued: true,
		opts:     dagrun.Options{Seed: s.world.config.Seed, Generation: 1},
		rec:      dagrun.RunRecord{Generation: 1},
		tasks:    map[dagrun.TaskID]taskRow{},
		attempts: map[attemptKey]dagrun.AttemptRecord{},
		settled:  map[dagrun.TaskID]settlement{},
	})
}

// claimOne gives a queued run to a worker that has its fence.
func (s *store) claimOne(worker int) *row {
	if !s.beats[worker].fenced {
		return nil
	}
	for _, r := range s.runs {
		if !r.queued {
			continue
		}
		s.claims++
		r.queued, r.claim, r.worker = false, s.claims, worker
		r.epoch++
		if r.epoch > 1 {
			s.world.Counts.Takeovers++
			s.countRetries(r)
		}
		s.world.log("worker %d claims run %d, epoch %d", worker, r.id, r.epoch)
		return r
	}
	return nil
}

func (s *store) countRetries(r *row) {
	for _, t := range r.tasks {
		if t.State == dagrun.TaskRetrying {
			s.world.Counts.RetriesOverTakeover++
		}
	}
}

// saved is what the next driver restores from.
func (r *row) saved() dagrun.Saved {
	saved := dagrun.Saved{Run: r.rec}
	for _, t := range r.tasks {
		saved.Tasks = append(saved.Tasks, t.TaskRecord)
	}
	slices.SortFunc(saved.Tasks, func(a, b dagrun.TaskRecord) int {
		return cmp.Or(cmp.Compare(a.ID.Step, b.ID.Step), cmp.Compare(a.ID.Item, b.ID.Item), cmp.Compare(a.ID.Alt, b.ID.Alt))
	})
	return saved
}

// undecided are the controls nobody has answered, the oldest first.
func (r *row) undecided() []*dagrun.Control {
	var open []*dagrun.Control
	for _, c := range r.controls {
		if c.decision == nil {
			open = append(open, &c.Control)
		}
	}
	return open
}

type outcome int

const (
	landed outcome = iota
	refused
	leaseLost
)

// batch is one commit: what a Ready asked for, and what the driver knew.
type batch struct {
	claim, worker, epoch, inbox int
	records                     dagrun.Records
	leave                       *dagrun.Leave
	over                        *dagrun.Verdict
	keep                        int // of the tasks, when the journal got no further; -1 = all
}

// commit is the fenced write. Sent twice it changes nothing the second time.
func (s *store) commit(r *row, b *batch) outcome {
	if !s.beats[b.worker].fenced || r.claim != b.claim {
		s.world.Counts.FencedCommits++
		return leaseLost
	}
	if (b.leave != nil || b.over != nil) && r.inbox != b.inbox {
		s.world.Counts.RefusedCommits++
		return refused
	}
	s.world.Counts.Commits++
	for _, a := range b.records.Attempts {
		s.writeAttempt(r, a)
	}
	tasks := b.records.Tasks
	if b.keep >= 0 {
		s.world.Counts.SplitCommits++
		s.writeTasks(r, b, tasks[:b.keep])
		return landed
	}
	s.writeTasks(r, b, tasks)
	for _, d := range b.records.Controls {
		s.decide(r, d)
	}
	if b.records.Run != nil {
		r.rec = *b.records.Run
	}
	s.letGo(r, b)
	return landed
}

// letGo ends the claim with a commit that ends, parks or releases the run.
func (s *store) letGo(r *row, b *batch) {
	switch {
	case b.over != nil:
		r.claim, r.worker = 0, 0
		s.checkVerdict(r, b.over)
	case b.leave != nil:
		r.claim, r.worker = 0, 0
		r.queued, r.parked, r.wakeAt = b.leave.Drained, !b.leave.Drained, b.leave.WakeAt
		if r.parked {
			s.world.Counts.Parks++
		}
	}
}

func (s *store) writeTasks(r *row, b *batch, records []dagrun.TaskRecord) {
	for _, rec := range records {
		old, known := r.tasks[rec.ID]
		if known && (old.epoch > b.epoch || old.epoch == b.epoch && old.Seq >= rec.Seq) {
			continue
		}
		if known || rec.State != dagrun.TaskPending {
			s.checkTask(r, old, rec)
		}
		if settled, ok := r.settled[rec.ID]; ok && (rec.State != dagrun.TaskRunning || settled.attempt != rec.Attempt) {
			delete(r.settled, rec.ID)
		}
		if rec.State.Terminal() {
			r.losses = 0
		}
		r.tasks[rec.ID] = taskRow{rec, b.epoch}
	}
	for _, rec := range records {
		s.checkEdges(r, rec)
	}
}

func (s *store) writeAttempt(r *row, a dagrun.AttemptRecord) {
	key := attemptKey{a.ID, a.Attempt}
	if _, known := r.attempts[key]; known {
		return
	}
	r.attempts[key] = a
	if a.Kind == dagrun.KindLost {
		s.world.Counts.LostAttempts++
	}
}

func (s *store) decide(r *row, d dagrun.Decision) {
	i := slices.IndexFunc(r.controls, func(c *request) bool { return c.ID == d.ID })
	if i < 0 {
		panic(fmt.Sprintf("run %d: a decision about a control nobody gave: %+v", r.id, d))
	}
	c := r.controls[i]
	if c.decision != nil && *c.decision != d {
		panic(fmt.Sprintf("A2: run %d: control %d was decided %+v and now %+v", r.id, d.ID, *c.decision, d))
	}
	c.decision = &d
	if c.Verb == dagrun.VerbRetry && d.Outcome == dagrun.Applied {
		s.world.Counts.Generations++
	}
}

// ask puts a control into a run's inbox.
func (s *store) ask(r *row, c dagrun.Control) {
	s.lastID++
	c.ID = s.lastID
	r.controls = append(r.controls, &request{Control: c})
	r.inbox++
	s.world.log("control %d on run %d: %s %v", c.ID, r.id, c.Verb, c.Task)
	s.unpark(r)
}

func (s *store) unpark(r *row) {
	if r.parked {
		r.parked, r.queued = false, true
		s.world.Counts.Wakes++
	}
}

// lose is the reaper's work: no write of that worker lands any more, then its runs go to others.
func (s *store) lose(worker int) {
	b := s.beats[worker]
	if !b.fenced {
		return
	}
	b.fenced = false
	for _, r := range s.runs {
		if r.claim != 0 && r.worker == worker {
			r.claim, r.worker, r.queued = 0, 0, true
			r.losses++
		}
	}
	s.world.log("worker %d is lost", worker)
}

// releaseUnknown hands on the runs that the store says a worker has and the worker does not know.
func (s *store) releaseUnknown(k *worker) {
	for _, r := range s.runs {
		if r.claim != 0 && r.worker == k.id && !k.drives(r) {
			r.claim, r.worker, r.queued = 0, 0, true
		}
	}
}

// reap finds workers whose beat stood still.
func (s *store) reap() {
	for _, id := range slices.Sorted(maps.Keys(s.beats)) {
		if s.world.now-s.beats[id].at >= dagrun.Time(ttl) {
			s.lose(id)
		}
	}
}

// wake queues parked runs whose time has come, and ends child runs whose time has come.
func (s *store) wake() {
	for _, r := range s.runs {
		if r.parked && r.wakeAt != 0 && r.wakeAt <= s.world.now {
			s.unpark(r)
		}
	}
	keys := slices.SortedFunc(maps.Keys(s.children), func(a, b childKey) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.task.Step, b.task.Step), cmp.Compare(a.task.Item, b.task.Item),
			cmp.Compare(a.task.Alt, b.task.Alt), cmp.Compare(a.attempt, b.attempt))
	})
	for _, key := range keys {
		if c := s.children[key]; !c.ended && (c.canceled || c.endsAt <= s.world.now) {
			c.ended = true
			s.endChild(c)
		}
	}
}

func (s *store) endChild(c *child) {
	if c.run.rec.State.Terminal() {
		return
	}
	res := s.world.randomEnd()
	if c.canceled || res.Kind != dagrun.KindNone {
		res = dagrun.Result{Kind: dagrun.KindChild, Reason: "child run " + c.ref + " did not succeed"}
	}
	task := c.task
	s.ask(c.run, dagrun.Control{Verb: dagrun.VerbChildEnded, Task: &task, Ref: c.ref, Result: &res})
}

// openChild finds or makes the child run of an attempt.
func (s *store) openChild(r *row, a dagrun.Action) *child {
	key := childKey{r.id, a.Attempt, a.Task}
	c, known := s.children[key]
	if !known {
		s.world.Counts.Children++
		c = &child{ref: fmt.Sprint(len(s.children) + 100), run: r, task: a.Task, endsAt: s.world.after(4 * ttl)}
		s.children[key] = c
	}
	return c
}

func (s *store) cancelChild(ref string) {
	for _, c := range s.children {
		if c.ref == ref {
			c.canceled = true
		}
	}
}

func (s *store) finished() bool {
	return !slices.ContainsFunc(s.runs, func(r *row) bool { return !r.rec.State.Terminal() })
}

func (s *store) unfinished() string {
	i := slices.IndexFunc(s.runs, func(r *row) bool { return !r.rec.State.Terminal() })
	r := s.runs[i]
	return fmt.Sprintf("run %d: %+v queued=%t parked=%t claim=%d worker=%d open=%v\n%s", r.id, r.rec, r.queued, r.parked, r.claim, r.worker,
		r.undecided(), r.describe())
}
