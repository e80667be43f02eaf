package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/migrations"
)

// Types that were dropped and made again have other oids, which an older connection does not know.
func TestCommit_ConnectsAgainWhenTypesWereMadeAnew(t *testing.T) {
	t.Parallel()
	for _, to := range []int64{3, 7} { // with and without the fences
		y := newJournalBundle(t)
		c := y.claim()
		y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
		if _, err := migrations.Down(t.Context(), y.db.URL, to); err != nil {
			t.Fatal(err)
		}
		if _, err := migrations.Up(t.Context(), y.db.URL, migrations.WithForce()); err != nil {
			t.Fatal(err)
		}
		y.exec("INSERT INTO oarlock.fences SELECT $1, unnest('{commit,claim,logs,settle}'::text[]) ON CONFLICT DO NOTHING", y.worker)
		y.must(y.outcome(y.later(finishing(c, dagrun.RunSucceeded, taskAt(0, 2, dagrun.TaskSucceeded)))))
		if got := y.tasks(c); !slices.Equal(got, []string{"0 succeeded 2"}) {
			t.Errorf("down to %d and up again: tasks %v", to, got)
		}
	}
}

// A pool drops a connection with outdated types too.
func TestStore_ConnectsAgainWhenTypesWereMadeAnew(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	store, err := Open(t.Context(), Config{URL: y.db.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	bulk := Bulk{DAG: "two", Params: []any{map[string]any{}}}
	if _, err := store.EnqueueMany(t.Context(), bulk); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Down(t.Context(), y.db.URL, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), y.db.URL, migrations.WithForce()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; {
		_, err := store.EnqueueMany(t.Context(), bulk)
		if err == nil {
			return
		}
		if !Passing(err) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
