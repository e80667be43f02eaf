package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// audit records what the store is asked to write, and checks it. The store's lock guards the audit.
//
//	S1 a task succeeds once per generation, and its terminal state in a generation does not change, unless a control resets it
//	S2 nothing changes in a finished run
//	S3 epochs rise, claim ids are never used again
//	S4 a finished run has no open task, and its verdict follows from its tasks
//	S5 no task starts before its edges allow it
//	S6 every run ends once the faults have stopped (history.waitForAll)
//	S7 nothing is written under a claim that is gone
//	S8 attempts are numbered without a gap, each closed before the next begins
//	W1 W2 W3: see sees and over
//	C2 C3: see share_test.go
//	C4: see pools_test.go
//	F1 F2 F3: see schedule_test.go
//	A2 a control is decided once, and a cancel that was accepted wins
//	G2 the log of an attempt has one end
type audit struct {
	*history
	memory *storetest.Memory
	runs   map[queue.RunID]*row
	order  []queue.RunID
	claims map[uuid.UUID]bool
	owners map[uuid.UUID]*process // of the workers
	alive  map[*sighting]bool

	registrations []uuid.UUID // of the workers, in order
	sharing       sharing
	pulse         pulse
}

// row is a run as it was written.
type row struct {
	id       queue.RunID
	graph    *dagrun.Graph
	claim    uuid.UUID // zero: no worker holds it
	driver   *process  // made the last claim
	epoch    int
	tasks    map[dagrun.TaskID]dagrun.TaskRecord
	wrote    map[dagrun.TaskID]int // the epoch that wrote the task last
	closed   map[attempt]bool
	decided  map[int64]dagrun.Decision
	cancels  map[int64]int // accepted cancels, with the generation they were for
	state    dagrun.RunState
	rounds   int // generation
	finished bool
}

type attempt struct {
	task dagrun.TaskID
	n    int
}

func newAudit(h *history, m *storetest.Memory) *audit {
	return &audit{
		history: h, memory: m, runs: map[queue.RunID]*row{}, claims: map[uuid.UUID]bool{}, owners: map[uuid.UUID]*process{},
		alive: map[*sighting]bool{}, sharing: newSharing(),
	}
}

// row returns the row of a run, and adds it if it is new.
func (a *audit) row(id queue.RunID) *row {
	r := a.runs[id]
	if r == nil {
		shown, err := a.memory.Get(context.Background(), id)
		if err != nil {
			panic(err)
		}
		r = &row{
			id: id, graph: a.graphs[shown.DAG], rounds: 1, tasks: map[dagrun.TaskID]dagrun.TaskRecord{}, wrote: map[dagrun.TaskID]int{},
			closed: map[attempt]bool{}, decided: map[int64]dagrun.Decision{}, cancels: map[int64]int{},
		}
		a.runs[id] = r
		a.order = append(a.order, id)
	}
	return r
}

func (a *audit) registered(p *process, id uuid.UUID, replaces []uuid.UUID) {
	a.owners[id] = p
	a.registrations = append(a.registrations, id)
	a.sharing.renewed[p] = time.Now()
	for _, dead := range replaces {
		a.lost(dead)
	}
}

// lost checks a worker that was found dead: none of its bodies may be alive.
func (a *audit) lost(id uuid.UUID) {
	p := a.owners[id]
	if p == nil {
		return
	}
	a.say("%s is lost", p.name)
	a.count(func(c *Counts) { c.Takeovers++ })
	p.mu.Lock()
	current := len(p.ids) == 0 || p.ids[len(p.ids)-1] == id
	p.mu.Unlock()
	for w := range a.alive {
		if w.process == p && current && !p.stoodStill() {
			a.breaks("W4: run %d: %s #%d of epoch %d is alive at %s, which is lost", w.run, w.name, w.attempt, w.epoch, p.name)
		}
	}
}

func (a *audit) polled(p *process, polled *queue.Polled) {
	for _, c := range polled.Claims {
		r := a.row(c.Run)
		a.say("run %d: claimed by %s in epoch %d, %s", c.Run, p.name, c.Epoch, c.Row.State)
		switch {
		case c.Epoch <= r.epoch:
			a.breaks("S3: run %d: epoch %d after %d", c.Run, c.Epoch, r.epoch)
		case a.claims[c.ID]:
			a.breaks("S3: run %d: claim id %s a second time", c.Run, c.ID)
		}
		a.claims[c.ID] = true
		r.claim, r.epoch, r.driver = c.ID, c.Epoch, p
		if c.Row.Generation != r.rounds {
			r.rounds, r.finished = c.Row.Generation, false
			a.count(func(c *Counts) { c.Generations++ })
		}
	}
}

func (a *audit) gaveBack(c *queue.Claim) {
	a.say("run %d: given back in epoch %d", c.Run, c.Epoch)
	if r := a.row(c.Run); r.claim == c.ID {
		r.claim = uuid.Nil
	}
}

// bore notes a child run.
func (a *audit) bore(c queue.Child, id queue.RunID) {
	if a.runs[id] == nil {
		a.row(id)
		a.say("run %d: asks for child %d", c.Claim.Run, id)
		a.count(func(c *Counts) { c.Children++ })
	}
}

func (a *audit) asked(c *queue.Control) {
	a.count(func(n *Counts) { n.Controls++ })
	delete(a.sharing.moves, c.Run)
	r := a.row(c.Run)
	switch {
	case c.Verb == dagrun.VerbCancel && c.Step == "" && c.Outcome != dagrun.Refused:
		r.cancels[c.ID] = r.rounds
		a.count(func(n *Counts) { n.Cancels++ })
		if c.Outcome == dagrun.Applied {
			clear(r.cancels)
			a.endedUnheld(r)
		}
	case c.Verb == dagrun.VerbRetry && c.Outcome != dagrun.Refused && r.finished:
		r.rounds++
		r.finished = false
		a.count(func(c *Counts) { c.Generations++ })
	}
}

// endedUnheld notes the ends of the tasks of a run that the store canceled by itself, since no worker held it.
func (a *audit) endedUnheld(r *row) {
	tasks, err := a.memory.Tasks(context.Background(), r.id)
	if err != nil {
		a.breaks("run %d: %v", r.id, err)
	}
	for i := range tasks {
		t := &tasks[i]
		id, err := r.graph.ParseTask(t.Step)
		if err != nil {
			a.breaks("run %d: %v", r.id, err)
		}
		id.Item = t.Item
		rec, known := r.tasks[id]
		switch {
		case known && rec.State.Terminal() && rec.State.String() != t.State:
			a.breaks("S1: run %d: %s was %s and becomes %s", r.id, r.graph.TaskName(id), rec.State, t.State)
		case known && rec.State.Terminal() || t.State != dagrun.TaskCanceled.String():
			continue
		case !known:
			rec = dagrun.TaskRecord{ID: id, Generation: r.rounds}
		}
		rec.State, rec.Reason = dagrun.TaskCanceled, t.Reason
		r.tasks[id] = rec
	}
	a.ends(r, &dagrun.Verdict{State: dagrun.RunCanceled, Reason: "no worker held it"})
}

// committed notes a batch that the store accepted.
func (a *audit) committed(p *process, b *queue.Batch) {
	r := a.row(b.Claim.Run)
	switch {
	case r.claim != b.Claim.ID:
		a.breaks("S7: run %d: a write of epoch %d was taken in epoch %d", r.id, b.Claim.Epoch, r.epoch)
	case r.finished:
		a.breaks("S2: run %d: a write after its end", r.id)
	}
	a.count(func(c *Counts) { c.Commits++; c.Transitions += len(b.Records.Tasks) })
	a.movedBy(p, b)
	for i := range b.Records.Attempts {
		a.closes(r, &b.Records.Attempts[i])
	}
	for i := range b.Records.Tasks {
		a.writes(r, b.Claim.Epoch, b.Records.Tasks[i])
	}
	for i := range b.Records.Tasks {
		a.edges(r, &b.Records.Tasks[i])
	}
	for _, d := range b.Records.Controls {
		a.decides(r, d)
	}
	if b.Leave != nil || b.Result != nil {
		r.claim = uuid.Nil
	}
	if b.Leave != nil && !b.Leave.Drained {
		a.count(func(c *Counts) { c.Parked++ })
	}
	if b.Result != nil {
		a.ends(r, b.Result)
	}
	_ = p
}

func (a *audit) closes(r *row, rec *dagrun.AttemptRecord) {
	r.closed[attempt{rec.ID, rec.Attempt}] = true
	if rec.Kind == dagrun.KindLost {
		a.count(func(c *Counts) { c.LostAttempts++ })
	}
}

// writes notes and checks a task record.
func (a *audit) writes(r *row, epoch int, rec dagrun.TaskRecord) {
	old, known := r.tasks[rec.ID]
	if known && r.wrote[rec.ID] == epoch && old.Seq >= rec.Seq {
		return
	}
	name := r.graph.TaskName(rec.ID)
	a.say("run %d: %s is %s #%d in generation %d, %s", r.id, name, rec.State, rec.Attempt, rec.Generation, rec.Reason)
	if same := old.Generation == rec.Generation; same && old.State.Terminal() && rec.ResetBy <= old.ResetBy {
		a.breaks("S1: run %d: %s was %s #%d and becomes %s #%d", r.id, name, old.State, old.Attempt, rec.State, rec.Attempt)
	}
	if rec.Attempt < old.Attempt || rec.Attempt > old.Attempt+1 {
		a.breaks("S8: run %d: %s goes from attempt %d to %d", r.id, name, old.Attempt, rec.Attempt)
	}
	if rec.Attempt > old.Attempt && old.Attempt > 0 && !r.closed[attempt{rec.ID, old.Attempt}] {
		a.breaks("S8: run %d: %s begins attempt %d, and %d was not closed", r.id, name, rec.Attempt, old.Attempt)
	}
	r.tasks[rec.ID], r.wrote[rec.ID] = rec, epoch
	if rec.State.Terminal() && !rec.Tolerated {
		a.over(r.id, name, "it is recorded as "+rec.State.String())
	}
	a.notes(r, &rec)
}

// notes counts the interesting things in a record.
func (a *audit) notes(r *row, rec *dagrun.TaskRecord) {
	a.count(func(c *Counts) {
		switch {
		case rec.State == dagrun.TaskWaiting:
			c.Waited++
		case rec.State == dagrun.TaskFinishing:
			c.Published++
		}
		if rec.ID.Item != "" {
			c.Items++
		}
		if r.graph.StepName(rec.ID.Step)[0] == '@' {
			c.Handlers++
		}
	})
}

// edges checks a task that begins: under the default rule all its parents have got as far as its edges require.
func (a *audit) edges(r *row, rec *dagrun.TaskRecord) {
	step := r.graph.Step(rec.ID.Step)
	begins := rec.State == dagrun.TaskRunning && rec.StartedAt == rec.AttemptAt
	if rec.ID.Item != "" || rec.ID.Alt != 0 || !begins || step.Rule != dagrun.AllSuccess {
		return
	}
	for _, e := range r.graph.Parents(rec.ID.Step) {
		parent := r.tasks[dagrun.TaskID{Step: e.Step}]
		ok := parent.State == dagrun.TaskSucceeded || parent.State == dagrun.TaskFailed && parent.Tolerated
		switch e.State {
		case dagrun.OnStarted:
			ok = parent.StartedAt != 0
		case dagrun.OnFinished:
			ok = ok || parent.State == dagrun.TaskFinishing || parent.State == dagrun.TaskRetrying && parent.Publishing ||
				parent.StartedAt != 0 && parent.State.Terminal()
		default:
		}
		if !ok {
			a.breaks("S5: run %d: %s starts, and its parent %s is %s", r.id, r.graph.TaskName(rec.ID), r.graph.StepName(e.Step), parent.State)
		}
	}
}

func (a *audit) decides(r *row, d dagrun.Decision) {
	if was, known := r.decided[d.ID]; known && was.Outcome != d.Outcome {
		a.breaks("A2: run %d: control %d was decided %s and now %s", r.id, d.ID, was.Outcome, d.Outcome)
	}
	r.decided[d.ID] = d
}

// ends checks a run that is over.
func (a *audit) ends(r *row, v *dagrun.Verdict) {
	a.say("run %d: over, %s: %s", r.id, v.State, v.Reason)
	r.state, r.finished = v.State, true
	a.over(r.id, "", "the run is "+v.State.String())
	a.count(func(c *Counts) {
		switch v.State {
		case dagrun.RunSucceeded:
			c.Succeeded++
		case dagrun.RunFailed:
			c.Failed++
		default:
			c.Canceled++
		}
	})
	bad := false
	for i := range r.graph.Len() {
		t, known := r.tasks[dagrun.TaskID{Step: i}]
		if handler := r.graph.StepName(i)[0] == '@'; handler && !known {
			continue // some ends do not use every handler
		}
		if !known || !t.State.Terminal() {
			a.breaks("S4: run %d is over, and %s is %s", r.id, r.graph.StepName(i), t.State)
		}
		bad = bad || t.State == dagrun.TaskUpstreamFailed || t.State == dagrun.TaskFailed && !t.Tolerated && t.Generation == r.rounds
	}
	if bad && v.State == dagrun.RunSucceeded {
		a.breaks("S4: run %d succeeded although a step failed", r.id)
	}
	for id, round := range r.cancels {
		if round == r.rounds && v.State != dagrun.RunCanceled {
			a.breaks("A2: run %d: cancel %d was accepted, and the run is %s", r.id, id, v.State)
		}
	}
}

// open returns the name of a run that is not over, or of a fire time that is not decided.
func (a *audit) open(ctx context.Context) string {
	for _, id := range a.store.everyRun() {
		if r, err := a.memory.Get(ctx, id); err != nil || !r.Over() {
			return fmt.Sprintf("run %d: %+v, %v", id, r, err)
		}
	}
	a.store.mu.Lock() // workers attend meanwhile
	defer a.store.mu.Unlock()
	if p := &a.pulse; p.open() {
		return fmt.Sprintf("the time %v of %s is not decided", p.next.Sub(a.began), pulseName)
	}
	return ""
}

// atEnd compares the store with what was written, once everything has ended.
func (a *audit) atEnd(ctx context.Context) {
	for _, id := range a.order {
		a.compare(ctx, a.runs[id])
	}
	if len(a.alive) > 0 {
		a.breaks("W4: %d bodies outlive everything", len(a.alive))
	}
}

func (a *audit) compare(ctx context.Context, r *row) {
	shown, err := a.memory.Get(ctx, r.id)
	if err != nil {
		a.breaks("run %d: %v", r.id, err)
		return
	}
	if shown.State != r.state.String() || shown.Epoch != r.epoch || shown.Generation != r.rounds {
		a.breaks("run %d is %s in epoch %d, generation %d, and was told %s, %d, %d", r.id, shown.State, shown.Epoch, shown.Generation, r.state, r.epoch, r.rounds)
	}
	attempts, err := a.memory.Attempts(ctx, r.id)
	if err != nil {
		a.breaks("run %d: %v", r.id, err)
	}
	for id, t := range r.tasks {
		a.numbered(r, id, t, attempts)
		a.logged(ctx, r, id, t)
	}
}

// numbered checks that the history has every attempt before the last.
func (a *audit) numbered(r *row, id dagrun.TaskID, t dagrun.TaskRecord, attempts []queue.Attempt) {
	for n := 1; n < t.Attempt; n++ {
		if !slices.ContainsFunc(attempts, func(x queue.Attempt) bool {
			return x.Step == r.graph.StepName(id.Step) && x.Item == id.Item && x.Attempt == n
		}) {
			a.breaks("S8: run %d: attempt %d of %s is missing", r.id, n, r.graph.TaskName(id))
		}
	}
}

// logged checks that each log has one end, and that the end comes last.
func (a *audit) logged(ctx context.Context, r *row, id dagrun.TaskID, t dagrun.TaskRecord) {
	chunks, err := a.memory.ReadLogs(ctx, queue.LogQuery{Run: r.id, Step: r.graph.StepName(id.Step), Item: id.Item, Attempt: t.Attempt})
	if err != nil {
		a.breaks("run %d: log of %s: %v", r.id, r.graph.TaskName(id), err)
	}
	for i := range chunks {
		if c := &chunks[i]; c.Seq != i || c.Final != (i == len(chunks)-1) {
			a.breaks("G2: run %d: chunk %d of %s #%d is number %d, final %t", r.id, i, r.graph.TaskName(id), t.Attempt, c.Seq, c.Final)
		}
	}
}

// everyRun returns all runs in order, children included.
func (s *store) everyRun() []queue.RunID {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.audit.history.runs {
		s.audit.row(id)
	}
	return slices.Sorted(slices.Values(s.audit.order))
}

func (s *store) anyRun(r *rand.Rand) queue.RunID {
	all := s.everyRun()
	return all[r.IntN(len(all))]
}

// approval reports whether a step is an approval.
func (s *store) approval(run queue.RunID, step string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.audit.row(run).graph
	i, ok := g.StepIndex(step)
	return ok && g.Step(i).Body == dagrun.BodyApproval
}
