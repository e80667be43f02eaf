package migrations_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Some sessions attend while others pause schedules, resume them to catch up, and edit settings that move no times. No time is
// lost or fires twice.
func TestAttend_EditsAndPausesWhileDue(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	const schedules, due, attenders, editors = 20, 5, 3, 2
	var ids [schedules]int64
	for n := range ids {
		ids[n] = b.hourly(t, fmt.Sprint("s", n), due, ", catchup => true, overlap_policy => 'allow'")
	}
	work := map[string]string{ // each changes one schedule, which its last argument names
		"attend": "SELECT count(*) FROM oarlock.attend('-infinity', 4) WHERE $1 <> ''",
		"pause":  "SELECT oarlock.pause_schedule('nightly', $1)",
		"resume": "SELECT oarlock.resume_schedule('nightly', $1, catch_up => true)",
		"edit": `SELECT oarlock.put_schedule('nightly', s.name, every => '1 hour', start_at => (s.timing).start_at, params => jsonb_build_object('n', 1 + coalesce((s.params ->> 'n')::int, 0) % 5),
		                                     catchup => true, overlap_policy => 'allow') FROM oarlock.schedules s WHERE s.name = $1`,
	}
	must(t, b.conn, "SELECT oarlock.pause_schedule('nightly', s.name) FROM oarlock.schedules s") // so that all fires follow an edit
	done := make(chan error, attenders+editors)
	begin := func(verbs ...string) {
		conn := connect(t, b.db.URL)
		go func() { done <- eachOf(t.Context(), conn, work, schedules, verbs...) }()
	}
	for range attenders {
		begin("attend", "attend", "attend", "attend")
	}
	for range editors {
		begin("resume", "edit", "pause", "resume", "edit", "pause")
	}
	for range attenders + editors {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.agenda"); n != 0 {
		t.Errorf("%d are paused, and on the agenda", n)
	}
	must(t, b.conn, "SELECT oarlock.resume_schedule('nightly', s.name, catch_up => true) FROM oarlock.schedules s")
	attend(t, b.conn)
	for _, id := range ids {
		if got, want := b.decided(t, id), strings.Join(slices.Repeat([]string{"fired"}, due), ", "); got != want {
			t.Errorf("schedule %d: %s, want %s", id, got, want)
		}
		b.checkOnce(t, id)
	}
}

// eachOf runs the statements in turn for each schedule.
func eachOf(ctx context.Context, conn *pgx.Conn, work map[string]string, schedules int, verbs ...string) error {
	for n := range schedules {
		for _, verb := range verbs {
			if _, err := conn.Exec(ctx, work[verb], fmt.Sprint("s", n)); err != nil {
				return fmt.Errorf("%s s%d: %w", verb, n, err)
			}
		}
	}
	return nil
}
