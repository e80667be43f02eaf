package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// opened is a transaction with some statements, which the caller ends.
func (f *fleet) opened(t *testing.T, statements ...string) pgx.Tx {
	t.Helper()
	tx, err := f.db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	for _, s := range statements {
		if _, err := tx.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return tx
}

// lane is the one lane of plain.
func (f *fleet) lane(t *testing.T) int {
	t.Helper()
	return value[int](t, f.desk, "SELECT v.lane_id FROM oarlock.dags d JOIN oarlock.dag_versions v USING (dag_id) WHERE d.name = 'plain'")
}

// raised polls until the floor of plain's lane is after some moment.
func (f *fleet) raised(t *testing.T, s *queue.Session, over time.Time) {
	t.Helper()
	lane := f.lane(t)
	tick := time.NewTicker(floorsWait / 25) // it takes as long as floors wait, however often one asks
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		if p := poll(t, s, 1); len(p.Claims) > 0 {
			t.Fatalf("claimed %v", runsOf(p.Claims))
		}
		if floor, _ := s.Floor(lane); floor.After(over) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the floor stands still below %v", over)
		}
	}
}

// wantSoon wants runs to be claimed by the next poll, or by one that it asks for. A machine that was held up for so long that
// polls go back no more for these runs has sweeps find them.
func (f *fleet) wantSoon(t *testing.T, s *queue.Session, want ...queue.RunID) {
	t.Helper()
	late := value[bool](t, f.desk, "SELECT clock_timestamp() - min(run_at) > interval '1 second' FROM oarlock.runs WHERE run_id = ANY ($1)", want)
	var got []queue.RunID
	for end := time.Now().Add(time.Minute); ; {
		if late {
			sweep(t, s)
		}
		p := poll(t, s, len(want)-len(got))
		got = append(got, runsOf(p.Claims)...)
		if len(got) == len(want) || p.Within != again && (!late || time.Now().After(end)) {
			break
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("claimed %v right after, want %v", got, want)
	}
}

func (f *fleet) now(t *testing.T) time.Time {
	t.Helper()
	return value[time.Time](t, f.desk, "SELECT clock_timestamp()")
}

const (
	floorsWait = 250 * time.Millisecond // as long as floors wait
	again      = 5 * time.Millisecond   // how soon the next poll is, where this one did not look for all that may be claimed
)

// A bulk call reads the clock once it has its keys, so floors pass none of its runs while it waits for one.
func TestFloors_ABulkCallThatWaitedForItsKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.register(t)
	poll(t, s, 1)
	holds := f.opened(t, "SELECT oarlock.enqueue('plain', run_key => 'k')")
	conn := f.db.Conn(t)
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "SELECT oarlock.enqueue_many('plain', ARRAY['{}', '{}']::jsonb[], ARRAY['k', 'x'])")
		done <- err
	}()
	f.blocked(t, "enqueue_many")
	f.raised(t, s, f.now(t).Add(2*floorsWait))
	if err := holds.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ids := value[[]queue.RunID](t, f.desk, "SELECT array_agg(run_id ORDER BY run_id) FROM oarlock.runs")
	f.wantSoon(t, s, ids...)
}

// Floors wait a moment for a transaction that is open, then go on, and go back for what it commits.
func TestFloors_ATransactionThatIsOpenForLong(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"plain":               {"SELECT oarlock.enqueue('plain')"},
		"in a savepoint":      {"SAVEPOINT a", "SELECT oarlock.enqueue('plain')", "RELEASE a"},
		"beside an aborted":   {"SAVEPOINT a", "SELECT oarlock.enqueue('plain')", "ROLLBACK TO a", "SELECT oarlock.enqueue('plain')"},
		"in an exception":     {"DO $$ BEGIN PERFORM oarlock.enqueue('plain'); EXCEPTION WHEN division_by_zero THEN NULL; END $$"},
		"long after it began": {"SELECT pg_current_xact_id()", "SELECT oarlock.enqueue('plain')"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			s := f.register(t)
			poll(t, s, 1)
			poll(t, s, 1)
			tx := f.opened(t, statements...)
			entered := f.now(t)
			poll(t, s, 1)
			if floor, _ := s.Floor(f.lane(t)); floor.After(entered) {
				t.Errorf("the floor %v is after %v: it passes what may be committed any moment", floor, entered)
			}
			f.raised(t, s, entered.Add(floorsWait))
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.wantSoon(t, s, value[queue.RunID](t, f.desk, "SELECT run_id FROM oarlock.runs"))
		})
	}
}

// A transaction that is prepared is as open as any, though no session has it. PostgreSQL prepares none that has notified, so it
// enters its run while nobody is hungry.
func TestFloors_APreparedTransaction(t *testing.T) {
	t.Parallel()
	o, node := alone(t, map[string]string{"max_prepared_transactions": "2"}) // the shared server prepares none
	db := &pgtest.DB{URL: node.URL()}
	f := &fleet{desk: &desk{db: db, conn: db.Conn(t), store: o.Store}, worker: o.Store}
	f.put(t, plainDAG)
	s := f.register(t)
	poll(t, s, 1)
	poll(t, s, 0)
	tx := f.opened(t, "SELECT oarlock.enqueue('plain')", "PREPARE TRANSACTION 'p'")
	_ = tx.Rollback(t.Context()) // the session has none any more
	f.raised(t, s, f.now(t).Add(floorsWait))
	f.exec(t, "COMMIT PREPARED 'p'")
	f.wantSoon(t, s, value[queue.RunID](t, f.desk, "SELECT run_id FROM oarlock.runs"))
}

// What was only locked when a poll came by stays above the floor, or the floor comes back for it.
func TestFloors_RunsThatAreLocked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ limited, long bool }{
		"for a moment": {}, "for long": {long: true}, "for a moment, behind a limit": {limited: true}, "for long, behind a limit": {limited: true, long: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			if c.limited {
				f.exec(t, "SELECT oarlock.set_queue('default', max_running => 100000)")
			}
			s := f.register(t)
			poll(t, s, 1)
			locked := f.ask(t, "plain", 10)
			tx := f.opened(t, "SELECT FROM oarlock.runs FOR NO KEY UPDATE")
			more := f.ask(t, "plain", 3)
			poll(t, s, 1)
			rest := poll(t, s, 2).Claims
			if !slices.Equal(runsOf(rest), more[1:]) {
				t.Errorf("claimed %v, want %v", runsOf(rest), more[1:])
			}
			if end := f.now(t).Add(2 * floorsWait); c.long && !c.limited {
				f.raised(t, s, end)
			} else if c.long {
				for f.now(t).Before(end) {
					f.ask(t, "plain", 1)
					poll(t, s, 1)
				}
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.wantSoon(t, s, locked...)
		})
	}
}

// A clock that was set back puts new runs below every floor.
func TestFloors_AClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.register(t)
	poll(t, s, 1)
	poll(t, s, 1)
	s.SeenLater(time.Hour)
	f.wantSoon(t, s, f.ask(t, "plain", 2)...)
}

// Who became hungry after a run was entered, and before it was committed, is told nothing: it looks for itself.
func TestFloors_HungryBetweenTheStatementAndItsCommit(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.register(t)
	poll(t, s, 0)
	tx := f.opened(t, "SELECT oarlock.enqueue('plain')")
	var pace queue.Pace
	for i := range 10 {
		p := poll(t, s, 1)
		if pause := pace.After(p); !p.Hungry || p.Within == 0 && i > 1 || pause > 40*time.Millisecond { // the first polls may not see it yet, and are close to each other
			t.Fatalf("polled %+v, next in %v", p, pause)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wantSoon(t, s, value[queue.RunID](t, f.desk, "SELECT run_id FROM oarlock.runs"))
}

// Whoever looked at a lane goes back to the lowest run that came back, and no further.
func TestFloors_FallToWhatComesBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s, other := f.register(t), f.register(t)
	f.raised(t, s, f.now(t))
	ids := f.ask(t, "plain", 40)
	for range 3 {
		poll(t, s, 5)
	}
	claims := poll(t, other, 10).Claims
	poll(t, s, 1)
	for _, c := range []*queue.Claim{claims[7], claims[3]} {
		if err := other.Release(t.Context(), c, true); err != nil {
			t.Fatal(err)
		}
	}
	poll(t, s, 0)
	if at, run := s.Floor(f.lane(t)); at.Before(claims[0].RunAt.Add(-time.Minute)) || at.After(claims[3].RunAt) || at.Equal(claims[3].RunAt) && run > claims[3].Run { // lower where others of this server commit late
		t.Errorf("the floor is %v, %d, want %v, %d of %v", at, run, claims[3].RunAt, claims[3].Run, ids)
	}
	if p := poll(t, s, 2); !slices.Equal(runsOf(p.Claims), []queue.RunID{claims[3].Run, claims[7].Run}) {
		t.Errorf("claimed %v", runsOf(p.Claims))
	}
}

// The first poll after the commit finds what an application brought back, however long ago the run was due and for how long the
// transaction was open; and so does the first of a worker that was cut off for so long that others deleted what it had to know.
func TestFloors_FallToWhatATransactionBringsBack(t *testing.T) {
	t.Parallel()
	for name, cutOff := range map[string]bool{"while the worker polls": false, "while the worker is cut off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			s := f.watcher(t)
			runs := f.ask(t, "plain", 2)
			f.exec(t, "UPDATE oarlock.runs SET run_at = run_at - interval '1 hour'")
			for _, run := range runs {
				f.claim(t, run)
				f.end(t, run, "failed")
			}
			app := f.opened(t, fmt.Sprintf("SELECT oarlock.retry(%d, 'all')", runs[1]), fmt.Sprintf("SELECT oarlock.retry(%d, 'all')", runs[0]))
			f.raised(t, s.Session, f.now(t).Add(2*floorsWait))
			if err := app.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if rows := value[int](t, f.desk, "SELECT count(*) FROM oarlock.returns"); rows != 1 {
				t.Errorf("one transaction left %d rows for one lane", rows)
			}
			if cutOff {
				f.exec(t, "DELETE FROM oarlock.returns")
				s.pass(queue.ReturnsKept)
			}
			if p := poll(t, s.Session, 2); !slices.Equal(runsOf(p.Claims), runs) {
				t.Errorf("claimed %v, want %v", runsOf(p.Claims), runs)
			}
		})
	}
}

// Behind a new connection may be a server that was promoted, and that gave ids of transactions once more which the worker has seen:
// what came back by those is told to nobody.
func TestFloors_BeginAtTheStartBehindANewConnection(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.register(t)
	run := f.ask(t, "plain", 1)[0]
	f.claim(t, run)
	f.raised(t, s, f.now(t))
	f.cut(t, s)
	f.exec(t, "UPDATE oarlock.runs SET state = 'queued', claim_id = NULL, worker_id = NULL")
	poll(t, s, 0) // over the new connection
	if p := poll(t, s, 1); !slices.Equal(runsOf(p.Claims), []queue.RunID{run}) {
		t.Errorf("claimed %v, want %d", runsOf(p.Claims), run)
	}
}

// Many transactions are open for a while, each with a run: a worker that polls as often as it should finds each by the
// first poll after its commit, or by one that this asks for. A machine that was held up for so long that polls go
// back no more for a run has sweeps find it.
func TestFloors_ManyWritersThatCommitLate(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.register(t)
	poll(t, s, 1)
	const writers, each = 8, 12
	var mu sync.Mutex
	committed, slow := map[queue.RunID]bool{}, false
	var all sync.WaitGroup
	for range writers {
		conn := f.db.Conn(t)
		all.Go(func() {
			for range each {
				var id queue.RunID
				began := time.Now()
				err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
					_ = tx.QueryRow(t.Context(), "SELECT oarlock.enqueue('plain')").Scan(&id)
					_, err := tx.Exec(t.Context(), "SELECT pg_sleep($1)", rand.Float64()*0.3)
					return err
				})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if time.Since(began) < time.Second {
					committed[id] = true
				} else {
					slow = true
				}
				mu.Unlock()
			}
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	missed := map[queue.RunID]int{} // polls that began after the commit
	late, claimed := 0, 0
	for last := false; !last; {
		select {
		case <-over:
			last = true
		default:
		}
		mu.Lock()
		for id := range committed {
			missed[id]++
		}
		mu.Unlock()
		p := poll(t, s, 100)
		if p.Within == again {
			p.Claims = append(p.Claims, poll(t, s, 100).Claims...)
		}
		claimed += len(p.Claims)
		for _, id := range runsOf(p.Claims) {
			if missed[id] > 1 {
				late++
			}
			mu.Lock()
			delete(committed, id)
			mu.Unlock()
		}
	}
	for end := time.Now().Add(time.Minute); slow && claimed < writers*each && time.Now().Before(end); {
		sweep(t, s)
		claimed += len(poll(t, s, 100).Claims)
	}
	if claimed != writers*each || late > 0 {
		t.Errorf("claimed %d of %d, %d of them late", claimed, writers*each, late)
	}
}

// Who enters a run may wait for the lane, which somebody else is making. The run is as old as the call, so workers have to know of
// the transaction by then.
func TestFloors_ACallThatWaitedForItsLane(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]string{
		"one":  "SELECT oarlock.enqueue('plain', priority => -3)",
		"many": "SELECT oarlock.enqueue_many('plain', ARRAY['{}']::jsonb[], priority => -3)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			s := f.register(t)
			poll(t, s, 1)
			makes := f.opened(t, "SELECT oarlock.enqueue('plain', priority => -3)")
			waits := f.opened(t)
			done := make(chan error, 1)
			go func() {
				_, err := waits.Exec(context.WithoutCancel(t.Context()), call)
				done <- err
			}()
			f.waiting(t, call)
			for since := f.now(t); f.now(t).Sub(since) < floorsWait*3/2; {
				poll(t, s, 1)
			}
			if err := makes.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			for since := f.now(t); f.now(t).Sub(since) < floorsWait*3/2; {
				for _, c := range poll(t, s, 1).Claims {
					f.exec(t, finishClaim, c.ID)
				}
			}
			if err := waits.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.wantSoon(t, s, value[queue.RunID](t, f.desk, "SELECT max(run_id) FROM oarlock.runs"))
		})
	}
}

// waiting waits until a statement waits for a lock.
func (f *fleet) waiting(t *testing.T, statement string) {
	t.Helper()
	await.True(t, statement+" waits", func() bool {
		return value[bool](t, f.desk, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND query = $1", statement)
	})
}

// calm polls until floors may rise: a session that has just begun waits for transactions of other tests that began before it.
func calm(t *testing.T, s *queue.Session) *queue.Session {
	t.Helper()
	poll(t, s, 0)
	poll(t, s, 0)
	tick := time.NewTicker(floorsWait / 25)
	defer tick.Stop()
	for until := time.Now().Add(time.Minute); s.Horizon() > time.Second; <-tick.C {
		if poll(t, s, 0); time.Now().After(until) {
			t.Fatalf("floors stay %v below now", s.Horizon())
		}
	}
	return s
}
