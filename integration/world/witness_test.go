package world

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// executor plays bodies. A body lives on its host, whatever happens to the driver process.
type executor struct{ *process }

// sighting is a living body.
type sighting struct {
	process *process
	run     queue.RunID
	name    string // name of its task
	attempt int
	epoch   int64
	publish bool
}

// Execute plays a body.
func (e executor) Execute(ctx context.Context, t *worker.Task) dagrun.Result {
	killed := dagrun.Result{Kind: dagrun.KindSignal, Signal: 9, ExitCode: 137, HasExit: true}
	if e.isDead() {
		return killed // it was not even started
	}
	s := &sighting{e.process, queue.RunID(t.Run), taskName(t), t.Attempt, t.Fence, t.Publish}
	r := draw(e.seed, "body", t.Run, s.name, t.Attempt, t.Publish)
	plan := planOf(r)
	e.store.starts(s)
	t.Started()
	res := e.run(ctx, t, plan, r)
	e.store.ends(s)
	e.thaw(false, span(r, 100*time.Microsecond, 3*time.Millisecond)) // the end takes a moment to become known
	return res
}

func taskName(t *worker.Task) string {
	if t.Item == "" {
		return t.Step
	}
	return t.Step + "/" + t.Item
}

// plan is how a body will behave.
type plan struct {
	takes, dies time.Duration // dies: how long it takes to end after a request to end
	result      dagrun.Result
}

func planOf(r *rand.Rand) plan {
	p := plan{takes: span(r, 10*time.Millisecond, 3*time.Second), dies: span(r, time.Millisecond, 2*time.Second)}
	if oneIn(r, 8) {
		p.takes = span(r, ttl/2, 2*ttl)
	}
	switch r.IntN(8) {
	case 0:
		p.result = dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true}
	case 1:
		p.result = dagrun.Result{Kind: dagrun.KindExit, ExitCode: 2, HasExit: true, Permanent: true}
	}
	return p
}

// run plays the body's life: to its end, until it is asked to end, or until it is killed.
func (e executor) run(ctx context.Context, t *worker.Task, p plan, r *rand.Rand) dagrun.Result {
	killed := dagrun.Result{Kind: dagrun.KindSignal, Signal: 9, ExitCode: 137, HasExit: true}
	_, _ = t.Stdout.Write([]byte("begins\n"))
	done := time.NewTimer(p.takes)
	defer done.Stop()
	select {
	case <-done.C:
		return p.result
	case <-e.dead:
		return killed
	case <-ctx.Done():
	}
	grace := time.NewTimer(p.dies)
	defer grace.Stop()
	select {
	case <-grace.C:
		return dagrun.Result{Kind: dagrun.KindSignal, Signal: 15, ExitCode: 143, HasExit: true}
	case <-t.Now:
		e.sleep(span(r, 100*time.Microsecond, 5*time.Millisecond))
	case <-e.dead:
	}
	return killed
}

// starts notes that a body begins.
func (s *store) starts(w *sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.audit
	a.count(func(c *Counts) { c.Starts++ })
	a.say("run %d: %s #%d of epoch %d starts at %s, publish %t", w.run, w.name, w.attempt, w.epoch, w.process.name, w.publish)
	a.sees(w)
	a.alive[w] = true
	a.crowds(w)
}

func (s *store) ends(w *sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Ends++ })
	delete(s.audit.alive, w)
}

// sees checks a body that begins.
//
//	W1 no body of an older drive is alive, nor another of the same task
//	W2 a body starts only if it is recorded as under way by its claim
func (a *audit) sees(w *sighting) {
	if w.process.stoodStill() {
		return // only the database fences a host that stood still: the fence of its task decides
	}
	for other := range a.alive {
		if other.run == w.run && (other.epoch < w.epoch || other.name == w.name) && !other.process.stoodStill() {
			a.breaks("W1: run %d: %s #%d of epoch %d starts at %s while %s #%d of epoch %d is alive at %s", w.run, w.name, w.attempt, w.epoch,
				w.process.name, other.name, other.attempt, other.epoch, other.process.name)
		}
	}
	r := a.runs[w.run]
	id, err := r.graph.ParseTask(w.name)
	if err != nil {
		panic(err)
	}
	row, want := r.tasks[id], dagrun.TaskRunning
	if w.publish {
		want = dagrun.TaskFinishing
	}
	if row.State != want || row.Attempt != w.attempt || int64(r.epoch) != w.epoch {
		a.breaks("W2: run %d: %s #%d of epoch %d starts, recorded is %s #%d in epoch %d", w.run, w.name, w.attempt, w.epoch, row.State, row.Attempt, r.epoch)
	}
}

// over checks a task or a run that must have no activity any more.
//
//	W3 none after the success of a task was recorded, nor after the end of its run
func (a *audit) over(run queue.RunID, name, why string) {
	for w := range a.alive {
		if w.run == run && (name == "" || w.name == name) && !w.process.stoodStill() {
			a.breaks("W3: run %d: %s #%d of epoch %d is alive at %s, and %s", run, w.name, w.attempt, w.epoch, w.process.name, why)
		}
	}
}
