package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// patience bounds how long a test waits.
const patience = 30 * time.Second

// Harness is one store, fresh for one test.
type Harness struct {
	Client Client
	// EnqueueAsAnother asks for a run as a submitter other than Client.
	EnqueueAsAnother func(context.Context, queue.Request) (queue.RunID, error)
	Admin            Administrator
	Logs             LogReader
	History          Historian
	Register         func(context.Context, queue.Worker) (Session, error)
	// Settle makes a task's own transaction end with the settlement, and commits it.
	Settle func(context.Context, Session, queue.Settlement) error
	// TTL is the shortest TTL that a worker may have.
	TTL time.Duration
	// Tick lets a little time pass, far less than TTL.
	Tick func()
	// SetBack sets the clock of the store back, as when it was ahead and is corrected.
	SetBack func(time.Duration)
	// Refuse makes the store take no records of workers, as if its disk were full, until mend is called.
	Refuse func() (mend func())
	// Check looks at the store after the test; it may be nil.
	Check func(testing.TB)
}

// promise is one thing that a store must do, shown by a test.
type promise struct {
	name string
	hold func(*setup)
}

// Run tests that a store keeps every promise. fresh is called once for each promise.
func Run(t *testing.T, fresh func(*testing.T) Harness) {
	t.Helper()
	for _, group := range [][]promise{claimPromises, sharePromises, limitPromises, keyedPromises, commitPromises, leasePromises, refusePromises, controlPromises, cancelPromises, parkPromises, childPromises, ownPromises, cachePromises, approvalPromises, logPromises, crashPromises, uidPromises, schedulePromises, poolPromises} {
		for _, p := range group {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				s := &setup{T: t, Harness: fresh(t)}
				p.hold(s)
				if s.Check != nil {
					s.Check(t)
				}
			})
		}
	}
}

// setup is the store and the helpers that a promise is shown with.
type setup struct {
	*testing.T
	Harness
}

// lines makes the file of a DAG. Each line is a step with its parents, like "b: a" or "c: a b".
func lines(name string, steps ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nsteps:\n", name)
	for _, s := range steps {
		id, depends, _ := strings.Cut(s, ":")
		fmt.Fprintf(&b, "  - {id: %s, run: \"true\", depends: [%s]}\n", id, strings.Join(strings.Fields(depends), ", "))
	}
	return b.String()
}

var (
	single  = lines("single", "a")
	chain   = lines("chain", "a", "b: a", "c: b")
	diamond = lines("diamond", "a", "b: a", "c: a", "d: b c")
)

func (s *setup) put(source string) queue.Put {
	s.Helper()
	spec, err := dagspec.Parse("suite.yaml", []byte(source))
	s.must(err)
	put, err := s.Client.PutDAG(s.Context(), spec, source, "suite.yaml")
	s.must(err)
	return put
}

func (s *setup) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *setup) enqueue(r queue.Request) queue.RunID {
	s.Helper()
	id, err := s.Client.Enqueue(s.Context(), r)
	s.must(err)
	return id
}

// start registers a DAG and enqueues a run of it.
func (s *setup) start(source string) queue.RunID {
	s.Helper()
	s.put(source)
	name, _, _ := strings.Cut(strings.TrimPrefix(source, "name: "), "\n")
	return s.enqueue(queue.Request{DAG: name})
}

var workers = []string{"process", "action:noop", "action:wait", "action:approval", "action:dag.run", "cache"}

// worker registers a worker that can do everything, unless change says otherwise.
func (s *setup) worker(change ...func(*queue.Worker)) Session {
	s.Helper()
	w := queue.Worker{Name: "w", Host: "h", BootID: "b", PID: 1, Version: "test", Slots: 8, Offers: workers, Containment: "none", TTL: time.Hour}
	for _, c := range change {
		c(&w)
	}
	session, err := s.Register(s.Context(), w)
	s.must(err)
	s.Cleanup(func() { _ = session.Close(context.WithoutCancel(s.Context())) })
	return session
}

// shortLived gives a worker the shortest TTL, so that another worker finds it silent soon.
func (s *setup) shortLived(w *queue.Worker) { w.TTL = s.TTL }

// replacing makes a worker take the place of another.
func replacing(dead Session) func(*queue.Worker) {
	return func(w *queue.Worker) { w.Replaces = append(w.Replaces, dead.ID()) }
}

// until lets time pass until so returns true.
func (s *setup) until(what string, so func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !so(); s.Tick() {
		if time.Now().After(deadline) {
			s.Fatalf("waited in vain: %s", what)
		}
	}
}

func (s *setup) poll(w Session, want queue.Want) queue.Polled {
	s.Helper()
	polled, err := w.Poll(s.Context(), want)
	s.must(err)
	return polled
}

// look calls Look for a worker with runs that wait for slots in these lanes, and does the chores that the look found.
func (s *setup) look(w Session, lanes ...int) queue.Looked {
	s.Helper()
	looked, _ := s.lookAndDo(w, lanes...)
	return looked
}

// lookAndDo is look, and also returns how many runs the chores queued.
func (s *setup) lookAndDo(w Session, lanes ...int) (looked queue.Looked, queued int) {
	s.Helper()
	looked, err := w.Look(s.Context(), queue.Load{Lanes: lanes})
	s.must(err)
	queued, err = w.DoChores(s.Context())
	s.must(err)
	return looked, queued
}

// wakes reports whether a look finds a parked run that is due, and the chores after it queue the run.
func (s *setup) wakes(w Session) bool {
	s.Helper()
	_, queued := s.lookAndDo(w)
	return queued > 0
}

func (s *setup) sweep(w Session) queue.Swept {
	s.Helper()
	swept, err := w.Sweep(s.Context())
	s.must(err)
	return swept
}

// turn does what a worker does in one turn: it looks, sweeps if the look asks for it, and polls.
func (s *setup) turn(w Session, want queue.Want) (queue.Swept, queue.Polled) {
	s.Helper()
	var swept queue.Swept
	if s.look(w).Sweep {
		swept = s.sweep(w)
	}
	return swept, s.poll(w, want)
}

// claim polls until it has n claims. After a poll that brings too few it looks, because only a look makes the session
// know a new limit.
func (s *setup) claim(w Session, n int) []*queue.Claim {
	s.Helper()
	var claims []*queue.Claim
	s.until(fmt.Sprintf("%d claims", n), func() bool {
		claims = append(claims, s.poll(w, queue.Want{Slots: n - len(claims), Free: n - len(claims)}).Claims...)
		if len(claims) < n {
			s.look(w)
		}
		return len(claims) >= n
	})
	return claims
}

func (s *setup) claimOne(w Session) *queue.Claim {
	s.Helper()
	return s.claim(w, 1)[0]
}

// claimInTurns takes turns, sweeps included, until it has one claim.
func (s *setup) claimInTurns(w Session) (c *queue.Claim) {
	s.Helper()
	s.until("a claim", func() bool {
		s.look(w)
		s.sweep(w)
		for _, c = range s.poll(w, queue.Want{Slots: 1, Free: 1}).Claims {
			return true
		}
		return false
	})
	return c
}

// idle makes a worker look and poll for a while, and fails the test if the worker gets a run.
func (s *setup) idle(w Session, why string) {
	s.Helper()
	for range 5 {
		s.look(w)
		polled := s.poll(w, queue.Want{Slots: 1, Free: 1})
		if len(polled.Claims) > 0 {
			s.Fatalf("%s, but run %d was claimed", why, polled.Claims[0].Run)
		}
		s.Tick()
	}
}

func (s *setup) drive(w Session, c *queue.Claim, b Behaviour) Driven {
	s.Helper()
	driven, err := Drive(s.Context(), w, c, s.paced(w, b))
	s.must(err)
	return driven
}

// paced returns the behaviour with the clock of the store.
func (s *setup) paced(w Session, b Behaviour) Behaviour {
	if b.Now == nil {
		now := s.now(w)
		b.Now = func() dagrun.Time { return now }
	}
	return b
}

// now returns the store's time, by a renewal of w.
func (s *setup) now(w Session) dagrun.Time {
	s.Helper()
	renewed, err := w.Renew(s.Context(), queue.Vitals{})
	s.must(err)
	return renewed.Now
}

func (s *setup) get(id queue.RunID) *queue.Run {
	s.Helper()
	r, err := s.Client.Get(s.Context(), id)
	s.must(err)
	return r
}

func (s *setup) wantState(id queue.RunID, state string) {
	s.Helper()
	if r := s.get(id); r.State != state {
		s.Errorf("run %d is %s (%s), not %s", id, r.State, r.Reason, state)
	}
}

func (s *setup) tasks(id queue.RunID) map[string]queue.Task {
	s.Helper()
	rows, err := s.Client.Tasks(s.Context(), id)
	s.must(err)
	byName := map[string]queue.Task{}
	for _, t := range rows {
		name := t.Step
		if t.Item != "" {
			name += "/" + t.Item
		}
		byName[name] = t
	}
	return byName
}

func (s *setup) load(w Session, c *queue.Claim) *queue.Loaded {
	s.Helper()
	loaded, err := w.Load(s.Context(), []*queue.Claim{c})
	s.must(err)
	if len(loaded) != 1 || loaded[0] == nil {
		s.Fatalf("loaded %v of run %d", loaded, c.Run)
	}
	return loaded[0]
}

func (s *setup) mail(w Session, c *queue.Claim) *queue.Mailbox {
	s.Helper()
	boxes, err := w.ReadMail(s.Context(), []*queue.Claim{c})
	s.must(err)
	if len(boxes) != 1 || boxes[0] == nil {
		s.Fatalf("mail %v of run %d", boxes, c.Run)
	}
	return boxes[0]
}

func (s *setup) ask(a queue.Ask) queue.Control {
	s.Helper()
	c, err := s.Client.Control(s.Context(), a)
	s.must(err)
	return c
}

func (s *setup) wantError(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("got %v, want %v", err, want)
	}
}

func (s *setup) wantCode(err error, code string) {
	s.Helper()
	var refused *queue.Error
	if !errors.As(err, &refused) || refused.Code != code || refused.Hint == "" {
		s.Errorf("got %v, want %s with a hint", err, code)
	}
}

func (s *setup) wantLost(c *queue.Claim) {
	s.Helper()
	select {
	case <-c.Lost():
	default:
		s.Errorf("claim of run %d, epoch %d: its driver does not know that it is gone", c.Run, c.Epoch)
	}
}

// same fails the test unless got and want are equal, and prints how they differ.
func (s *setup) same(what string, got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// row returns the record of a task in its first attempt.
func row(step int, seq int64, state dagrun.State, at dagrun.Time) dagrun.TaskRecord {
	r := dagrun.TaskRecord{ID: dagrun.TaskID{Step: step}, Seq: seq, State: state, Attempt: 1, Generation: 1, StartedAt: at, AttemptAt: at}
	if state.Terminal() {
		r.FinishedAt = at
	}
	return r
}

// stalls makes a worker commit a task of its claim, and give the claim back because the next task waits for a slot.
func (s *setup) stalls(w Session, c *queue.Claim) {
	s.Helper()
	s.must(s.record(w, c, row(0, 1, dagrun.TaskSucceeded, s.now(w))))
	s.must(w.Release(s.Context(), c, true, 0))
}

// record commits task records under a claim, without the core.
func (s *setup) record(w Session, c *queue.Claim, tasks ...dagrun.TaskRecord) error {
	return w.Commit(s.Context(), &queue.Batch{Claim: c, Seen: c.Inbox, Records: dagrun.Records{Tasks: tasks}})
}

// driven returns the run's own row while the run is driven.
func driven(c *queue.Claim) *dagrun.RunRecord {
	rec := c.Row
	rec.State = dagrun.RunRunning
	return &rec
}

// finish returns a batch that ends a run.
func finish(c *queue.Claim, seen int64, at dagrun.Time, tasks ...dagrun.TaskRecord) *queue.Batch {
	rec := driven(c)
	rec.State, rec.FinishedAt = dagrun.RunSucceeded, at
	rec.Counts = dagrun.Counts{Total: len(tasks), Succeeded: len(tasks)}
	return &queue.Batch{
		Claim: c, Seen: seen, Records: dagrun.Records{Tasks: tasks, Run: rec}, Result: &dagrun.Verdict{State: dagrun.RunSucceeded},
	}
}

// park returns a batch that leaves a run until a moment, or until a control arrives.
func park(c *queue.Claim, seen int64, wakeAt dagrun.Time, tasks ...dagrun.TaskRecord) *queue.Batch {
	rec := driven(c)
	rec.State, rec.WakeAt = dagrun.RunWaiting, wakeAt
	return &queue.Batch{Claim: c, Seen: seen, Records: dagrun.Records{Tasks: tasks, Run: rec}, Leave: &dagrun.Leave{WakeAt: wakeAt}}
}

// decoded returns JSON as Go values, so that spelling does not matter.
func decoded(s *setup, raw []byte) any {
	s.Helper()
	var v any
	s.must(json.Unmarshal(raw, &v))
	return v
}

func approve(id queue.RunID, step string) queue.Ask {
	return queue.Ask{Run: id, Verb: dagrun.VerbApprove, Step: step}
}
