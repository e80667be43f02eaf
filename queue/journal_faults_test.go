package queue

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
)

// flushBind matches the message that starts a flush on the server.
func flushBind(m netfault.Message) bool {
	return m.From == netfault.Client && m.Type == 'B' && bytes.Contains(m.Body, []byte(wholeFlush.name))
}

// flushSync matches the last message of a flush from the client. Without it the server waits, with its locks.
func flushSync() netfault.Match {
	bound := false
	return func(m netfault.Message) bool {
		bound = bound || flushBind(m)
		return bound && m.From == netfault.Client && m.Type == 'S'
	}
}

// flushDone matches the report that a flush was executed; its reply is not with the client yet.
func flushDone() netfault.Match {
	bound := false
	return func(m netfault.Message) bool {
		bound = bound || flushBind(m)
		return bound && m.From == netfault.Server && m.Type == 'C'
	}
}

func TestFlush_WaitsForAFenceThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	reaper := y.begin()
	y.in(reaper, "DELETE FROM oarlock.fences")
	done := y.later(finishing(c, dagrun.RunSucceeded, taskAt(0, 1, dagrun.TaskSucceeded)))
	y.blocked(reaper, appName(y.worker))
	y.end(reaper)
	if err := y.outcome(done); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	if got := y.tasks(c); len(got) > 0 || y.runState(c) != "running" {
		t.Errorf("tasks %v, run %s", got, y.runState(c))
	}
	y.forfeited(c)
}

func TestFlush_GoesOnWhenTheFenceStaysAfterAll(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	reaper := y.begin()
	y.in(reaper, "DELETE FROM oarlock.fences")
	done := y.later(finishing(c, dagrun.RunSucceeded))
	y.blocked(reaper, appName(y.worker))
	y.must(reaper.Rollback(t.Context()))
	y.must(y.outcome(done))
}

func TestFlush_HoldsUpTheDeletionOfItsFence(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	holder := y.begin() // keeps the flush from going on once it has its fence
	y.in(holder, "SELECT FROM oarlock.runs WHERE run_id = $1 FOR NO KEY UPDATE", c.Run)
	done := y.later(finishing(c, dagrun.RunSucceeded, taskAt(0, 1, dagrun.TaskSucceeded)))
	y.blocked(holder, appName(y.worker))
	reaped := make(chan error, 1)
	reaper := y.begin()
	go func() {
		_, err := reaper.Exec(context.Background(), "DELETE FROM oarlock.fences")
		reaped <- err
	}()
	y.eventually("the reaper waits for the flush", func() bool {
		return get[bool](y, "SELECT cardinality(pg_blocking_pids($1)) > 0", int(reaper.Conn().PgConn().PID()))
	})
	y.end(holder)
	y.must(y.outcome(done))
	y.must(<-reaped)
	if got := y.runState(c); got != "succeeded" {
		t.Errorf("the run is %s", got)
	}
}

// paused and going return records of the run's own row. The later one must win.
func paused(c *Claim) *Batch {
	b := batch(c, taskAt(0, 1, dagrun.TaskRunning))
	b.Records.Run = &dagrun.RunRecord{State: dagrun.RunPaused, PausedBy: "ana", StartedAt: 1000}
	return b
}

func going(c *Claim) *Batch {
	b := batch(c, taskAt(0, 2, dagrun.TaskSucceeded))
	b.Records.Run = &dagrun.RunRecord{State: dagrun.RunRunning, StartedAt: 1000}
	return b
}

func TestFlush_ACopyThatHangsBeforeItsFenceNeverLands(t *testing.T) {
	t.Parallel()
	y, proxy := through(t)
	c := y.claim()
	hold := proxy.Inject(netfault.Fault{When: flushBind, Do: netfault.Hold})
	defer hold.Release()
	y.must(y.commit(t.Context(), paused(c))) // by its second copy
	y.must(y.commit(t.Context(), going(c)))
	hold.MustFire(t)
	before := get[int](y, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", appName(y.worker))
	hold.Release() // the first copy is on its way again: no server process must be left to execute it
	y.must(y.commit(t.Context(), batch(c, taskAt(1, 3, dagrun.TaskRunning))))
	if got := y.runState(c); got != "running" || before != 1 {
		t.Errorf("the run is %s, with %d connections; want running, with one", got, before)
	}
	if got := y.tasks(c); !slices.Equal(got, []string{"0 succeeded 2", "1 running 3"}) {
		t.Errorf("tasks %v", got)
	}
}

func TestFlush_ACopyThatHangsWithItsFenceIsEndedAndSentAgain(t *testing.T) {
	t.Parallel()
	y, _ := through(t)
	c := y.claim()
	y.exec("CREATE SEQUENCE public.updates")
	y.exec(`CREATE FUNCTION public.hang() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN PERFORM pg_sleep(600) WHERE nextval('public.updates') = 1; RETURN NEW; END $$`)
	y.exec("CREATE TRIGGER hangs_once BEFORE UPDATE ON oarlock.runs FOR EACH ROW EXECUTE FUNCTION public.hang()")
	done := y.later(paused(c))
	var first []string
	y.eventually("a process is at the flush", func() bool { first = y.serving(); return len(first) == 1 })
	y.must(y.outcome(done))
	if left := get[int](y, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1::int", first[0]); left != 0 {
		t.Error("the first copy is still under way")
	}
	y.must(y.commit(t.Context(), going(c)))
	if got := y.runState(c); got != "running" {
		t.Errorf("the run is %s", got)
	}
}

// serving returns the server processes of the worker that hang in the middle of a statement.
func (y *journalBundle) serving() []string {
	y.tb.Helper()
	return y.list("SELECT pid::text FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'PgSleep'", appName(y.worker))
}

func TestFlush_WhoseReplyIsCutIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]func(c *Claim) *Batch{
		"goes on": func(c *Claim) *Batch { return batch(c, taskAt(0, 1, dagrun.TaskRunning)) },
		"ends":    func(c *Claim) *Batch { return finishing(c, dagrun.RunSucceeded, taskAt(0, 1, dagrun.TaskSucceeded)) },
		"parks":   func(c *Claim) *Batch { return parking(c, taskAt(0, 1, dagrun.TaskWaiting)) },
		"drains": func(c *Claim) *Batch {
			b := batch(c, taskAt(0, 1, dagrun.TaskRetrying))
			b.Leave = &dagrun.Leave{Drained: true}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y, proxy := through(t)
			c, other := y.claim(), y.claim()
			b := b(c)
			b.Records.Notes = []dagrun.Note{{At: 5, Kind: "skip", Text: "a note"}}
			cut := proxy.Inject(netfault.Fault{When: flushDone(), Do: netfault.Cut})
			y.must(y.commit(t.Context(), b))
			cut.MustFire(t)
			if got := y.tasks(c); len(got) != 1 {
				t.Errorf("tasks %v", got)
			}
			if got := get[int](y, "SELECT count(*) FROM oarlock.events"); got != 1 {
				t.Errorf("%d notes", got)
			}
			select {
			case <-c.Lost():
				t.Error("the claim was forfeited")
			case <-other.Lost():
				t.Error("another claim was forfeited")
			default:
			}
			y.must(y.commit(t.Context(), batch(other, taskAt(0, 1, dagrun.TaskRunning))))
			if held := y.held.of(c) != nil; held == b.ends() {
				t.Errorf("held: %v", held)
			}
		})
	}
}

func TestFlush_ThatIsHalfSentLetsGoOfItsFence(t *testing.T) {
	t.Parallel()
	y, proxy := through(t)
	c := y.claim()
	half := proxy.Inject(netfault.Fault{When: flushSync(), Do: netfault.Mute})
	done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
	half.MustFire(t)
	y.eventually("a fence is held by a process that waits for its client", func() bool {
		return get[bool](y, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'ClientRead' AND state = 'active')`, appName(y.worker))
	})
	y.exec("SET lock_timeout = '20s'")
	y.exec("DELETE FROM oarlock.fences") // must end once the worker gives up
	if err := y.outcome(done); err != nil && !errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
}

// If the server refuses a statement while a connection is made ready, the statements before it stay prepared.
func TestFlush_GoesOnWhereItsConnectionWasHalfReady(t *testing.T) {
	t.Parallel()
	y, proxy := through(t)
	y.journal, y.held, y.lost = y.open(must(proxy.URL(y.url)), patience) // does not give up by itself
	c := y.claim()
	second := func(m netfault.Message) bool {
		return m.From == netfault.Client && m.Type == 'P' && bytes.HasPrefix(m.Body, []byte(otherFlush.name))
	}
	hold := proxy.Inject(netfault.Fault{When: second, Do: netfault.Hold})
	defer hold.Release()
	done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
	hold.MustFire(t)
	tx := y.begin()
	y.in(tx, "LOCK oarlock.tasks IN ACCESS EXCLUSIVE MODE")
	hold.Release()
	y.blocked(tx, appName(y.worker))
	refused := proxy.Inject(netfault.Fault{When: netfault.OfType(netfault.Server, 'E'), Do: netfault.Hold})
	defer refused.Release()
	y.exec("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = $1", appName(y.worker))
	refused.MustFire(t)
	y.end(tx)
	refused.Release()
	y.must(y.outcome(done))
	if got := y.tasks(c); !slices.Equal(got, []string{"0 running 1"}) {
		t.Errorf("tasks %v", got)
	}
}

func TestFlush_ThatIsHalfSentByADeadWorkerIsEnded(t *testing.T) {
	t.Parallel()
	y, proxy := through(t)
	y.journal, y.held, y.lost = y.open(must(proxy.URL(y.url)), patience) // does not give up by itself
	c := y.claim()
	half := proxy.Inject(netfault.Fault{When: flushSync(), Do: netfault.Mute})
	done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
	half.MustFire(t)
	y.eventually("the fence is held", func() bool {
		_, err := y.conn.Exec(t.Context(), "SELECT FROM oarlock.fences WHERE channel = 'commit' FOR NO KEY UPDATE NOWAIT")
		return err != nil
	})
	y.exec("UPDATE oarlock.workers SET state = 'lost'")
	y.exec("SELECT oarlock.end_backends($1)", y.worker)
	y.exec("SET lock_timeout = '20s'")
	y.exec("DELETE FROM oarlock.fences")
	if err := y.outcome(done); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	if got := y.tasks(c); len(got) > 0 {
		t.Errorf("tasks %v", got)
	}
}

func TestFlush_SentTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	first := paused(c)
	first.Records.Notes = []dagrun.Note{{At: 5, Kind: "skip", Text: "a note"}}
	first.Records.Attempts = []dagrun.AttemptRecord{{ID: dagrun.TaskID{Step: 0}, Attempt: 1, Generation: 1, State: dagrun.TaskFailed}}
	first.Chunks = []Chunk{{Run: c.Run, Task: dagrun.TaskID{Step: 0}, Attempt: 1, Day: LogDay(1000), At: time.UnixMilli(1000), Data: []byte("x")}}
	y.must(y.commit(t.Context(), first))
	y.must(y.commit(t.Context(), batch(c, taskAt(0, 2, dagrun.TaskSucceeded))))
	before := y.everything()
	held := y.held.of(c)
	held.notes = 0 // what a second copy would bring
	y.must(y.commit(t.Context(), first))
	if after := y.everything(); !slices.Equal(before, after) {
		t.Errorf("before\n%v\nafter\n%v", before, after)
	}
}

// everything changes all that a flush can change of runs that go on.
func (y *journalBundle) everything() []string {
	y.tb.Helper()
	return y.list(`SELECT to_jsonb(r)::text FROM oarlock.runs r UNION ALL SELECT to_jsonb(t)::text FROM oarlock.tasks t
		UNION ALL SELECT to_jsonb(a)::text FROM oarlock.attempts a UNION ALL SELECT to_jsonb(e)::text FROM oarlock.events e
		UNION ALL SELECT to_jsonb(c)::text FROM oarlock.log_chunks c ORDER BY 1`)
}

func TestJournal_ForfeitsWhatAFailoverLost(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	claims := y.claims(3)
	kept, rolledBack, unclaimed := claims[0], claims[1], claims[2]
	for _, c := range claims {
		y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
		y.must(y.commit(t.Context(), batch(c, taskAt(1, 2, dagrun.TaskRunning))))
	}
	y.exec("DELETE FROM oarlock.tasks WHERE run_id = $1 AND step = 1", rolledBack.Run) // as if the standby had not got it
	y.exec("UPDATE oarlock.runs SET claim_id = gen_random_uuid() WHERE run_id = $1", unclaimed.Run)
	y.exec("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = $1", appName(y.worker))
	y.must(y.commit(t.Context(), batch(kept, taskAt(0, 3, dagrun.TaskSucceeded))))
	y.forfeited(rolledBack)
	y.forfeited(unclaimed)
	if y.held.of(kept) == nil {
		t.Error("what was kept is forfeited")
	}
	if err := y.commit(t.Context(), batch(rolledBack, taskAt(0, 3, dagrun.TaskSucceeded))); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
}

func TestJournal_GoesOnWhenTheDatabaseComesBack(t *testing.T) {
	t.Parallel()
	y, proxy := through(t)
	c := y.claim()
	y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
	tries := y.tries.Load()
	proxy.Refuse(true)
	proxy.CutAll()
	done := y.later(batch(c, taskAt(0, 2, dagrun.TaskSucceeded)))
	y.eventually("the journal has it in hand", func() bool { return y.tries.Load() > tries })
	proxy.Refuse(false)
	y.must(y.outcome(done))
}

func TestJournal_AnEntryThatWaitsCanBeTakenBack(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	claims := y.claims(2)
	block := y.begin()
	y.in(block, "SELECT FROM oarlock.fences FOR NO KEY UPDATE")
	inFlight := y.later(batch(claims[0], taskAt(0, 1, dagrun.TaskRunning)))
	y.blocked(block, appName(y.worker))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- y.commit(ctx, batch(claims[1], taskAt(0, 1, dagrun.TaskRunning))) }()
	y.eventually("it waits", func() bool { return len(y.queue) == 1 })
	cancel()
	if err := y.outcome(done); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	y.end(block)
	y.must(y.outcome(inFlight))
	y.must(y.commit(t.Context(), batch(claims[0], taskAt(0, 2, dagrun.TaskSucceeded))))
	if got := y.tasks(claims[1]); len(got) > 0 {
		t.Errorf("tasks %v of a batch that was taken back", got)
	}
}

func TestJournal_ClosesWithWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	y, proxy := through(t)
	c := y.claim()
	y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
	tries := y.tries.Load()
	proxy.Refuse(true)
	proxy.CutAll()
	done := y.later(batch(c, taskAt(0, 2, dagrun.TaskSucceeded)))
	y.eventually("the journal has it in hand", func() bool { return y.tries.Load() > tries })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := y.close(ctx); !errors.Is(err, ErrUnknown) {
		t.Errorf("close: %v", err)
	}
	if err := y.outcome(done); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnknown) {
		t.Errorf("commit: %v", err)
	}
	if err := y.commit(t.Context(), batch(c)); !errors.Is(err, ErrClosed) {
		t.Errorf("a commit after close: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
