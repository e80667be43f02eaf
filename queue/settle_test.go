package queue

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// settler is a transaction of a task's own SQL, by a login that has only the role of a worker.
func (y *journalBundle) settler() (*Session, pgx.Tx) {
	y.tb.Helper()
	conn, err := pgx.Connect(y.tb.Context(), y.url)
	y.must(err)
	y.tb.Cleanup(func() { _ = conn.Close(y.tb.Context()) })
	tx, err := conn.Begin(y.tb.Context())
	y.must(err)
	return &Session{worker: Worker{ID: y.worker}, journal: y.journal}, tx
}

func (y *journalBundle) settlement(c *Claim) Settlement {
	return Settlement{Claim: c, Task: dagrun.TaskID{Step: 0}, Attempt: 1, Outputs: `{"rows":7}`}
}

// settled returns a claim with a first task that runs and has a settled result.
func (y *journalBundle) settled() *Claim {
	y.tb.Helper()
	c := y.claim()
	y.must(y.commit(y.tb.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
	s, tx := y.settler()
	y.must(s.SettleTx(y.tb.Context(), tx, y.settlement(c)))
	y.must(tx.Commit(y.tb.Context()))
	return c
}

func TestSettleTx_KeepsTheResultForTheNextDriver(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.settled()
	loaded := y.load(c)
	if want := (Settled{Task: dagrun.TaskID{Step: 0}, Attempt: 1, Outputs: `{"rows":7}`}); len(loaded.Settled) != 1 || loaded.Settled[0] != want {
		t.Errorf("settled %+v, want %+v", loaded.Settled, want)
	}
	y.must(y.commit(t.Context(), batch(c, taskAt(0, 2, dagrun.TaskSucceeded)))) // as usual
	if got := y.load(c).Settled; len(got) > 0 {
		t.Errorf("settled %+v after it was recorded", got)
	}
}

// A result that Load would not accept is not kept by a flush either.
func TestSettleTx_OfAnEarlierAttemptIsForgotten(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.settled()
	later := taskAt(0, 2, dagrun.TaskRunning)
	later.Attempt = 2
	y.must(y.commit(t.Context(), batch(c, later)))
	if got := y.load(c).Settled; len(got) > 0 {
		t.Errorf("settled %+v for a later attempt", got)
	}
	if !get[bool](y, "SELECT settled IS NULL FROM oarlock.tasks") {
		t.Error("it is kept")
	}
}

func TestSettleTx_IsRefusedUnderAClaimThatIsGone(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"no fence":        "DELETE FROM oarlock.fences WHERE channel = 'settle'",
		"another claim":   "UPDATE oarlock.runs SET claim_id = gen_random_uuid()",
		"another attempt": "UPDATE oarlock.tasks SET attempt = 2",
		"has ended":       "UPDATE oarlock.tasks SET state = 'failed'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newJournalBundle(t)
			c := y.claim()
			y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
			y.exec(spoil)
			s, tx := y.settler()
			if err := s.SettleTx(t.Context(), tx, y.settlement(c)); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("got %v", err)
			}
			y.must(tx.Commit(t.Context()))
			if got := get[bool](y, "SELECT settled IS NULL FROM oarlock.tasks"); !got {
				t.Error("it is settled")
			}
		})
	}
}

func TestSettleTx_IsRefusedToALaterLifeOfTheWorker(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
	s, tx := y.settler()
	s.worker.ID = y.addWorker() // alive, with fences of its own
	if err := s.SettleTx(t.Context(), tx, y.settlement(c)); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
}

func TestSettleTx_HoldsUpATakeoverOfTheRunUntilItCommits(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
	s, tx := y.settler()
	y.must(s.SettleTx(t.Context(), tx, y.settlement(c)))
	y.must(y.commit(t.Context(), batch(c, taskAt(1, 2, dagrun.TaskRunning)))) // flushes of other tasks do not wait
	reaper := y.begin()
	gone := make(chan error, 1)
	go func() {
		_, err := reaper.Exec(t.Context(), "DELETE FROM oarlock.fences")
		gone <- err
	}()
	y.eventually("the reaper waits", func() bool {
		return get[bool](y, "SELECT $1::int = ANY (pg_blocking_pids($2))", int(tx.Conn().PgConn().PID()), int(reaper.Conn().PgConn().PID()))
	})
	y.must(tx.Commit(t.Context()))
	y.must(<-gone)
	y.end(reaper)
	if got := get[bool](y, "SELECT settled IS NOT NULL FROM oarlock.tasks WHERE step = 0"); !got {
		t.Error("what committed is not there")
	}
}
