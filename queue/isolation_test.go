package queue_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/queue"
)

func (d *clientBundle) begin(t *testing.T, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := d.db.Conn(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM pg_class"); err != nil { // takes the snapshot
		t.Fatal(err)
	}
	return tx
}

// The test shows what the comment on oarlock.enqueue says about a key that two transactions take at the same time.
func TestEnqueueTx_RacesForAKeyAsDocumented(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		level   pgx.TxIsoLevel
		commits bool
		want    string // SQLSTATE of the second
		same    bool   // it gets the run of the first
	}{
		{pgx.ReadCommitted, true, "", true},
		{pgx.ReadCommitted, false, "", false},
		{pgx.RepeatableRead, true, "40001", false},
		{pgx.RepeatableRead, false, "", false},
		{pgx.Serializable, true, "40001", false},
		{pgx.Serializable, false, "", false},
	} {
		t.Run(string(c.level)+map[bool]string{true: " commit", false: " rollback"}[c.commits], func(t *testing.T) {
			t.Parallel()
			d := newClientBundle(t)
			first, second := d.begin(t, c.level), d.begin(t, c.level)
			mine, err := queue.EnqueueTx(t.Context(), first, report("key"))
			if err != nil {
				t.Fatal(err)
			}
			var other queue.RunID
			ended := make(chan error)
			go func() {
				var err error
				other, err = queue.EnqueueTx(t.Context(), second, report("key"))
				ended <- err
			}()
			await.True(t, "the second waits", func() bool { return isWaitedFor(t, first) })
			end := first.Rollback
			if c.commits {
				end = first.Commit
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			err = <-ended
			if c.want != "" {
				wantError(t, err, nil, c.want)
				again, err := d.store.Enqueue(t.Context(), report("key"))
				if err != nil || again != mine {
					t.Errorf("repeated: run %d, %v, want %d", again, err, mine)
				}
				return
			}
			if err != nil || (other == mine) != c.same || second.Commit(t.Context()) != nil {
				t.Errorf("runs %d and %d, %v", mine, other, err)
			}
		})
	}
}

func TestEnqueueTx_InHigherLevelsSeesAKeyOfBeforeAndWaitsForNoOther(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			d := newClientBundle(t)
			before, err := d.store.Enqueue(t.Context(), report("before"))
			if err != nil {
				t.Fatal(err)
			}
			alone := d.begin(t, level)
			if found, err := queue.EnqueueTx(t.Context(), alone, report("before")); err != nil || found != before || alone.Commit(t.Context()) != nil {
				t.Errorf("run %d, %v, want %d", found, err, before)
			}
			first, second := d.begin(t, level), d.begin(t, level)
			for key, tx := range map[string]pgx.Tx{"one": first, "two": second} {
				for _, own := range []string{key, ""} {
					if _, err := queue.EnqueueTx(t.Context(), tx, report(own)); err != nil {
						t.Error(err)
					}
				}
			}
			if err := first.Commit(t.Context()); err != nil {
				t.Error(err)
			}
			if err := second.Commit(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEnqueueTx_SerializableCountsWhatWaitsInABoundedQueue(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	bound := 100
	if err := d.store.SetQueue(t.Context(), queue.QueueChange{Name: "default", MaxQueued: &bound}); err != nil {
		t.Fatal(err)
	}
	first, second := d.begin(t, pgx.Serializable), d.begin(t, pgx.Serializable)
	for _, tx := range []pgx.Tx{first, second} {
		if _, err := queue.EnqueueTx(t.Context(), tx, report("")); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := second.Commit(t.Context()); err == nil {
		t.Error("two that counted without each other both committed")
	}
}
