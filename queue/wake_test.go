package queue_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// crew adds n hungry workers that serve one queue and have a channel each. They have no process.
func (f *sessionBundle) crew(t *testing.T, n int, queue string) {
	t.Helper()
	f.exec(t, `WITH w AS (
			INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, hungry)
			SELECT gen_random_uuid(), 'w', 'h', 'b', 1, 'v', '{}', ARRAY[$2], 8, 'none', 30000, format('told_%s_%s', $2::text, i), 8 FROM generate_series(1, $1::int) i
			RETURNING worker_id)
		INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process}' FROM w`, n, queue)
}

// told enters runs, and returns the channels that are notified of them.
func (f *sessionBundle) told(t *testing.T, rows int) (channels []string) {
	t.Helper()
	f.exec(t, "SELECT oarlock.enqueue_many('plain', array_fill('{}'::jsonb, ARRAY[$1::int]))", rows)
	return f.heard(t)
}

// heard returns the channels of the notifications that were sent so far.
func (f *sessionBundle) heard(t *testing.T) (channels []string) {
	t.Helper()
	f.exec(t, "NOTIFY told_all, 'end'")
	for {
		n, err := f.conn.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n.Channel == "told_all" {
			return channels
		}
		channels = append(channels, n.Channel)
	}
}

// listen subscribes to the channels of a queue's crew.
func (f *sessionBundle) listen(t *testing.T, queue string) {
	t.Helper()
	f.exec(t, "LISTEN told_all")
	f.exec(t, "DO $$ DECLARE c text; BEGIN FOR c IN SELECT channel FROM oarlock.workers WHERE queues = '{"+queue+"}' LOOP EXECUTE 'LISTEN ' || c; END LOOP; END $$")
}

func TestScale_AnEnqueueLooksAtFewWorkers(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.crew(t, 1000, "default")
	f.exec(t, "VACUUM ANALYZE oarlock.workers, oarlock.worker_offers")
	lane := f.lane(t)
	f.exec(t, "SELECT oarlock.wake($1, 1)", lane) // reads the catalog
	n := explain(t, f.conn, "SELECT oarlock.wake(@lane, 1)", pgx.StrictNamedArgs{"lane": lane}).Buffers()
	t.Logf("%d buffers to tell one of 1000 workers", n)
	if n > 32*3+50 {
		t.Errorf("reads %d buffers to tell one of 1000 workers", n)
	}
}

func TestWake_FindsWorkers(t *testing.T) {
	t.Parallel()
	t.Run("TheOnlyOne", func(t *testing.T) {
		t.Parallel()
		f := newSessionBundle(t)
		f.crew(t, 500, "other")
		f.crew(t, 1, "default")
		f.crew(t, 500, "another")
		f.listen(t, "default")
		for range 20 { // each begins elsewhere
			if got := f.told(t, 1); len(got) != 1 {
				t.Fatalf("told %v, want the one that serves the lane", got)
			}
		}
	})
	t.Run("AsManyAsThereAreRuns", func(t *testing.T) {
		t.Parallel()
		f := newSessionBundle(t)
		f.crew(t, 100, "default")
		f.listen(t, "default")
		for _, rows := range []int{1, 31, 33, 99, 100, 200} {
			if got := f.told(t, rows); len(distinct(got)) != min(rows, 100) {
				t.Errorf("told %d workers of %d runs", len(distinct(got)), rows)
			}
		}
	})
	t.Run("OthersEachTime", func(t *testing.T) {
		t.Parallel()
		f := newSessionBundle(t)
		f.crew(t, 1000, "default")
		f.listen(t, "default")
		var all []string
		for range 100 {
			all = append(all, f.told(t, 1)...)
		}
		if n := len(distinct(all)); n < 50 {
			t.Errorf("100 runs were told to %d workers of 1000: %s", n, strings.Join(all, " "))
		}
	})
	t.Run("AllBehindRowsOfGoneOnes", func(t *testing.T) {
		t.Parallel()
		f := newSessionBundle(t)
		f.crew(t, 2000, "default")
		f.exec(t, "UPDATE oarlock.workers SET state = 'gone', ended_at = now()")
		f.exec(t, "VACUUM oarlock.workers")
		f.crew(t, 50, "default")
		f.exec(t, "LISTEN told_all")
		f.exec(t, "DO $$ DECLARE c text; BEGIN FOR c IN SELECT channel FROM oarlock.workers WHERE state = 'live' LOOP EXECUTE 'LISTEN ' || c; END LOOP; END $$")
		f.exec(t, "SELECT oarlock.wake($1, 1) FROM generate_series(1, 2000)", f.lane(t)) // a transaction notifies each worker once
		if got := f.heard(t); len(got) != 50 {
			t.Errorf("2000 runs were told to %d workers of 50", len(got))
		}
	})
}

func distinct(all []string) map[string]bool {
	set := map[string]bool{}
	for _, one := range all {
		set[one] = true
	}
	return set
}
