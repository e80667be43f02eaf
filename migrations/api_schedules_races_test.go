package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// begin opens a transaction of an application.
func (b bundle) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := connect(t, b.db.URL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// An application may have the run locked that is to be canceled: nothing else that is due waits for that, and the cancel comes afterwards.
func TestAttend_CancelsWhatAnApplicationHoldsLater(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	const schedules = 5
	for n := range schedules {
		id := b.hourly(t, fmt.Sprint("s", n), 1, ", catchup => true, overlap_policy => 'cancel'")
		b.unfinished(t, id)
	}
	other := b.hourly(t, "other", 1, ", catchup => true")
	tx := b.begin(t)
	must(t, tx, "SELECT FROM oarlock.runs FOR UPDATE")
	if got := b.list(t, "SELECT concat_ws(' ', kind, schedule, outcome, message) FROM oarlock.attend('-infinity', 32)"); len(got) != 1 || !strings.HasPrefix(got[0], "schedule other fired") {
		t.Errorf("one call says %q, want the other fired alone", got)
	}
	const left = "SELECT count(*) FROM oarlock.agenda WHERE at <= now() OR held_from IS NULL AND id <> $1"
	if n := get[int](t, b.conn, left, other); n != 0 {
		t.Errorf("one call left %d", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wakeAll(t)
	attend(t, b.conn)
	if n := get[int](t, b.conn, "SELECT count(DISTINCT run_id) FROM oarlock.controls WHERE verb = 'cancel'"); n != schedules {
		t.Errorf("%d runs were canceled, want %d", n, schedules)
	}
}

// A worker looks at a schedule that an application holds again after a pause: as long as the schedule is due, from 100 ms to 5 s.
func TestAttend_LooksLessOftenAtWhatIsHeld(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	id := b.hourly(t, "s", 1, ", catchup => true")
	tx := b.begin(t)
	must(t, tx, "SELECT FROM oarlock.schedules FOR NO KEY UPDATE")
	pause := func(due time.Duration) time.Duration { return min(max(due, 100*time.Millisecond), 5*time.Second) }
	for _, due := range []time.Duration{0, time.Second, 2 * time.Second, 6 * time.Second, time.Hour} {
		before := get[time.Time](t, b.conn, "UPDATE oarlock.agenda SET at = now() - $1::interval, held_from = NULL RETURNING now()", due)
		must(t, b.conn, "SELECT oarlock.attend('-infinity', 32)")
		at := get[time.Time](t, b.conn, "SELECT at FROM oarlock.agenda WHERE id = $1 AND held_from IS NOT NULL", id)
		after := get[time.Time](t, b.conn, "SELECT now()")
		if most, least := at.Sub(before), at.Sub(after); most < pause(due) || least > pause(due+after.Sub(before)) {
			t.Errorf("due for %v to %v, it is put off by %v to %v", due, due+after.Sub(before), least, most)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wakeAll(t)
	attend(t, b.conn)
	if got := b.decided(t, id); got != "fired" {
		t.Errorf("then decided %s, want it fired", got)
	}
}

func TestSchedules_PutWhileTheyAreDropped(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	const puts = 200
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dropper, done := connect(t, b.db.URL), make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			_, err := dropper.Exec(t.Context(), "SELECT oarlock.drop_schedule('nightly', 's')")
			if pg, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || pg.Code != "OA016") {
				done <- err
				return
			}
		}
		done <- nil
	}()
	lost := 0
	for n := range puts {
		var id *int64
		err := b.conn.QueryRow(t.Context(), "SELECT schedule_id FROM oarlock.put_schedule('nightly', 's', every => '1h', params => jsonb_build_object('n', $1::int))", n%5).Scan(&id)
		if err != nil {
			t.Error(err)
			break
		}
		if id == nil {
			lost++
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if lost > 0 {
		t.Errorf("%d of %d puts came to nothing", lost, puts)
	}
}

// An application puts a schedule while the DAG is removed. Whichever transaction commits first, no schedule of a removed DAG fires.
func TestSchedules_PutWhileTheDAGIsRemoved(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"new", "changed"} {
		b := api(t)
		b.put(t, nightlyDAG)
		put := "SELECT oarlock.put_schedule('nightly', 's', every => $1::interval, start_at => now() - interval '10 hours' + interval '30 minutes', catchup => true)"
		if kind == "changed" {
			must(t, b.conn, put, "2 hours")
		}
		tx := b.begin(t)
		must(t, tx, put, "1 hour")
		remover, removed := connect(t, b.db.URL), make(chan error, 1)
		pid := remover.PgConn().PID()
		go func() {
			_, err := remover.Exec(t.Context(), "SELECT oarlock.set_dag('nightly', removed => true)")
			removed <- err
		}()
		over, err := b.doneOrBlocked(t, pid, removed)
		if e := tx.Commit(t.Context()); e != nil {
			t.Fatal(e)
		}
		if !over {
			err = <-removed
		}
		if err != nil {
			t.Fatal(err)
		}
		must(t, b.conn, "UPDATE oarlock.schedules SET decided_at = now() - interval '3 hours'")
		b.wakeAll(t)
		attend(t, b.conn)
		if n := get[int](t, b.conn, "SELECT (SELECT count(*) FROM oarlock.fires) + (SELECT count(*) FROM oarlock.agenda)"); n != 0 {
			t.Errorf("%s: %d decided or on the agenda: %s", kind, n, b.list(t, "SELECT concat_ws(' ', outcome, reason) FROM oarlock.fires"))
		}
		for _, call := range []string{"trigger_schedule('nightly', 's')", "backfill('nightly', 's', '2026-01-01Z', '2026-01-02Z')"} {
			wantCode(t, b.conn, "OA002", "SELECT oarlock."+call)
		}
	}
}

// doneOrBlocked waits until a statement is over, which it reports with how, or waits for a lock.
func (b bundle) doneOrBlocked(t *testing.T, pid uint32, done <-chan error) (over bool, err error) {
	t.Helper()
	for {
		select {
		case err := <-done:
			return true, err
		default:
		}
		if get[bool](t, b.conn, "SELECT cardinality(pg_blocking_pids($1)) > 0", int32(pid)) {
			return false, nil
		}
	}
}
