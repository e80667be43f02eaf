package integration

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/chaos/check"
	"github.com/oarlock-dev/oarlock/integration/chaos/traffic"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// family is a run that waits for another run, and has logged something.
const family = `
name: family
steps:
  - {id: ask, action: dag.run, with: {dag: child}}
  - {id: say, run: 'true'}
`

// planted is the result of a seed without any breach: run 1 asked for run 2 and logged two chunks, which a client
// followed to the end.
func planted(t *testing.T) *judge {
	t.Helper()
	db := pgtest.New(t)
	store, err := queue.Open(t.Context(), queue.Config{URL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	b := &testBundle{Store: store, db: db, dir: t.TempDir()}
	b.put(t, "name: child\nsteps: [{id: a, action: noop}]\n")
	b.put(t, family)
	if err := script(t.Context(), db.URL, "audit"); err != nil {
		t.Fatal(err)
	}
	parent, child := b.enqueue(t, "family", nil), b.enqueue(t, "child", nil)
	j := &judge{
		chaosBundle: &chaosBundle{testBundle: b, asked: newAnswers(), lost: loss{over: make(chan struct{})}},
		t:           t, ctx: t.Context(), conn: db.Conn(t), plan: &traffic.Plan{}, res: newChaosResult(),
	}
	if err := script(t.Context(), db.URL, "planted"); err != nil {
		t.Fatal(err)
	}
	if parent != 1 || child != 2 {
		t.Fatalf("runs %d and %d, want 1 and 2", parent, child)
	}
	j.asked.note(parent)
	chunk := func(seq int) queue.Chunk {
		return queue.Chunk{Task: dagrun.TaskID{Step: 1}, Attempt: 2, Seq: seq, Data: []byte("ab")}
	}
	j.asked.tails = []*tail{{run: 1, ended: true, chunks: map[logOf][]queue.Chunk{{1, "", 0, 2}: {chunk(0), chunk(1)}}}}
	return j
}

// sql plants what a file does.
func sql(name string) func(*judge) {
	return func(j *judge) {
		if _, err := j.conn.Exec(j.ctx, chaosStatement(name)); err != nil {
			j.t.Fatalf("%s: %v", name, err)
		}
	}
}

// A worker with a guard that leaves a task behind: nothing ends the rest of a killed driver process.
func TestKillDriver_FindsWhatIsLeft(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes two seconds")
	}
	for name, careless := range map[string]bool{"careless": true, "careful": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := "planted-" + name + "-" + rand.Text()
			p := &process{Cmd: exec.Command("sh", "-c", "sh -c 'OARLOCK_WORKER_ID="+id+" sleep 60; :'; sleep 60"), ended: make(chan struct{})}
			p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
				_ = p.Wait()
			})
			until(t, "the task is there", func() bool { return len(carriers(id)) == 1 })
			a := &chaosBundle{ctx: t.Context(), units: []*station{{now: p}}}
			if !killDriver(a, mathrand.New(mathrand.NewPCG(1, 1))) {
				t.Fatal("it did not kill")
			}
			for _, pid := range carriers(id) {
				if !careless {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			a.atWork.Wait()
			if found := len(a.broken) == 1 && strings.HasPrefix(a.broken[0], late); found != careless || len(a.broken) > 1 {
				t.Errorf("found: %v", a.broken)
			}
		})
	}
}

// Breaches that a fault run must find, planted by hand.
func TestJudge_FindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("wants a database")
	}
	for name, test := range map[string]struct {
		plant func(*judge)
		want  []string
	}{
		"nothing":                       {func(*judge) {}, nil},
		"a run is gone":                 {func(j *judge) { j.asked.note(3) }, []string{"S6: run 3 was accepted"}},
		"a task is deleted":             {sql("planted_task"), []string{"S2: run 1: delete of tasks"}},
		"an attempt is rewritten":       {sql("planted_attempt"), []string{"S2: run 1: update of attempts"}},
		"an event is rewritten":         {sql("planted_event"), []string{"S2: run 1: update of events"}},
		"a piece of a log is rewritten": {sql("planted_chunk"), []string{"S2: run 1: update of log_chunks", "G4: run 1"}},
		"a second child":                {sql("planted_child"), []string{"A1: run 1: ask has 2 children"}},
		"success without a child's":     {sql("planted_success"), []string{"A1: run 1: ask has 1 children, 0 of them succeeded"}},
		"a follower missed the end":     {func(j *judge) { f := j.asked.tails[0]; at := logOf{1, "", 0, 2}; f.chunks[at] = f.chunks[at][:1] }, []string{"G4: run 1"}},
		"a follower missed an attempt":  {func(j *judge) { clear(j.asked.tails[0].chunks) }, []string{"G4: run 1"}},
		"a follower heard too much":     {func(j *judge) { f := j.asked.tails[0]; f.chunks[logOf{0, "", 0, 1}] = f.chunks[logOf{1, "", 0, 2}] }, []string{"G4: run 1"}},
		"a follower was cut off":        {func(j *judge) { f := j.asked.tails[0]; f.ended = false; clear(f.chunks) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := planted(t)
			test.plant(j)
			j.runs = j.readRuns()
			j.kept()
			j.tails()
			var got []string
			for i, what := range j.res.violations {
				if i < len(test.want) && strings.HasPrefix(what, test.want[i]) {
					what = test.want[i]
				}
				got = append(got, what)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("violations (- want, + got)\n%s", diff)
			}
		})
	}
}

// sampled returns a judge with a trail, and a sampler that samples the database until stop is called.
func sampled(t *testing.T) (j *judge, stop func() *check.Sharing) {
	t.Helper()
	b := setup(t)
	if err := script(t.Context(), b.db.URL, "audit"); err != nil {
		t.Fatal(err)
	}
	a := &chaosBundle{testBundle: b, t: t}
	a.ctx, a.stop = context.WithCancel(t.Context())
	a.atWork.Go(a.watchSharing)
	stop = func() *check.Sharing {
		a.stop()
		a.atWork.Wait()
		if len(a.broken) > 0 {
			t.Error(a.broken)
		}
		return &a.shared
	}
	t.Cleanup(func() { stop() })
	return &judge{chaosBundle: a, t: t, ctx: t.Context(), conn: b.db.Conn(t), res: newChaosResult()}, stop
}

// A worker polls and takes nothing, while a run waits.
func TestWatchSharing_FindsARunThatNobodyTakes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	j, stop := sampled(t)
	j.put(t, staying)
	j.worker(t, "w1", "lease_ttl=3s", "slots=2", "$DIR="+j.dir)
	j.hungry(t, 1)
	if err := script(t.Context(), j.db.URL, "planted_claim"); err != nil {
		t.Fatal(err)
	}
	run := j.enqueue(t, "held", nil)
	beside := func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return len(j.shared.Broken) > 0
	}
	until(t, "the sampler finds it", beside)
	shared := stop()
	if found := shared.Broken[0]; found.Rule != "C2" || found.Run != int64(run) || !strings.Contains(found.What, "in the queue") {
		t.Errorf("found %v", shared.Broken)
	}
}

// The trail shows whether a run went back because it waits for a slot, or because its worker stops and hands it on.
func TestReadTrail_TellsMovesForWantOfASlot(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("wants a database")
	}
	j := planted(t)
	worker := queue.Worker{ID: uuid.New(), Name: "w", Host: "h", BootID: "b", PID: 1, Version: "v", Slots: 4, Containment: "none", Offers: []string{"process", "action:noop"}}
	session, err := j.Register(t.Context(), worker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close(context.WithoutCancel(t.Context())) })
	release := func(c *queue.Claim) error { return session.Release(t.Context(), c, true, 0) }
	drain := func(why string, waits bool) func(*queue.Claim) error {
		return func(c *queue.Claim) error {
			return session.Commit(t.Context(), &queue.Batch{Claim: c, Waits: waits, Leave: &dagrun.Leave{Drained: true}, Records: dagrun.Records{
				Run: &dagrun.RunRecord{State: dagrun.RunQueued}, Notes: []dagrun.Note{{At: 5, Kind: "handed_on", Text: why}},
			}})
		}
	}
	for i, test := range []struct {
		what  string
		back  func(*queue.Claim) error
		moves int // moves counted so far
	}{
		{"it waits for a slot", release, 1},
		{"it waits for its next slot", drain("worker w has no free slot, and put the run back into the queue", true), 2},
		{"the worker stops", drain("worker w stops, and put the run back into the queue", false), 2},
	} {
		polled, err := session.Poll(t.Context(), queue.Want{Slots: 1, Free: 1})
		if err != nil || len(polled.Claims) != 1 {
			t.Fatalf("%s: %d claims, %v", test.what, len(polled.Claims), err)
		}
		if err := test.back(polled.Claims[0]); err != nil {
			t.Fatalf("%s: %v", test.what, err)
		}
		moves, broken := check.Moves(j.readTrail())
		if moves != test.moves || len(broken) > 0 {
			t.Errorf("%d: %s: %d moves, found %v, want %d, and nothing broken", i, test.what, moves, broken, test.moves)
		}
	}
}
