package migrations_test

import (
	"slices"
	"testing"
)

// A client that passes the last number it saw gets the pieces after it, each once.
func TestReadLog_GoesOnAfterTheLastNumberSeen(t *testing.T) {
	t.Parallel()
	b := api(t)
	run := enqueue(t, b.conn)
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, log_day) VALUES ($1, 0, 'running', 1, 1, 1, 1, '2026-11-20')`, run)
	must(t, b.conn, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data)
		SELECT '2026-11-20', $1, 0, '', 0, 1, n, 1, now(), 'x' FROM generate_series(0, 4) n`, run)
	page := func(after any) []int32 {
		return get[[]int32](t, b.conn, "SELECT coalesce(array_agg(seq ORDER BY seq), '{}') FROM oarlock.read_log($1, 'extract', after => $2, max_rows => 2)", run, after)
	}
	wantCode(t, b.conn, "OA013", "SELECT oarlock.read_log($1, 'extract', max_rows => -5)", run)
	seen := get[[]int32](t, b.conn, "SELECT array_agg(seq ORDER BY seq) FROM oarlock.read_log($1, 'extract', max_rows => 2)", run)
	for range 5 {
		seen = append(seen, page(seen[len(seen)-1])...)
	}
	if want := []int32{0, 1, 2, 3, 4}; !slices.Equal(seen, want) {
		t.Errorf("the pages hold %v, want %v", seen, want)
	}
	for _, none := range []any{nil, -1, -7} {
		if got := page(none); !slices.Equal(got, []int32{0, 1}) {
			t.Errorf("after %v comes %v", none, got)
		}
	}
	if got := page(2147483647); len(got) > 0 {
		t.Errorf("after the highest number comes %v", got)
	}
}
