package web

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

var nightly = flag.Bool("nightly", false, "show a run of 100,000 items, and time its pages")

// Bounds of any page.
const (
	maxElements = 6_000
	maxPage     = 400 << 10
)

// count makes the pages use a store that counts its statements. It leaves out the glance at the cluster, which is read once in
// two seconds for all viewers.
func (b *testBundle) count(t *testing.T) *pgtest.Statements {
	t.Helper()
	pool, sent := pgtest.Counted(t, b.db.URL)
	store, err := queue.Open(t.Context(), queue.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	b.server.store = store
	b.server.glances.read = func(context.Context) (glance, error) { return glance{}, nil }
	return sent
}

func (b *testBundle) put(t *testing.T, dag string) {
	t.Helper()
	spec, err := dagspec.Parse("dag.yaml", []byte(dag))
	if err == nil {
		_, err = b.store.PutDAG(t.Context(), spec, dag, "")
	}
	if err != nil {
		t.Fatal(err)
	}
}

const galleryDAG = `
name: gallery
steps:
  - {id: scan, run: "true"}
  - {id: resize, foreach: {items: [a]}, run: "true", depends: [scan]}
  - {id: publish, run: "true", depends: [resize]}
`

// gallery is a run of a foreach step with n items: of each hundred one failed, one runs and one has not begun. Each
// task with a log wrote 1,000 lines, and the run has several pages of controls and events.
func (b *testBundle) gallery(t *testing.T, n int) queue.RunID {
	t.Helper()
	b.put(t, galleryDAG)
	run := b.enqueue(t, queue.Request{DAG: "gallery"})
	b.exec(t, "SET jit = off")
	b.exec(t, "UPDATE oarlock.runs SET state = 'failed', started_at = now() - interval '1 h', finished_at = now() - interval '1 min', queue_deadline = NULL WHERE run_id = $1", run)
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, attempt_at, finished_at, log_day, outputs)
		SELECT $1, 0, 'succeeded', 21, 1, 1, 1, now() - interval '1 h', now() - interval '59 min', now() - interval '58 min', current_date,
		       (SELECT jsonb_object_agg('out' || i, i::text) FROM generate_series(1, 400) i)`, run)
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, grown)
		SELECT $1, 1, 'running', 0, 1, 1, 1, now() - interval '1 h', jsonb_build_object('generation', 1, 'items', (
		       SELECT jsonb_agg(jsonb_build_object('key', 'part-' || i, 'value', '{"name": "part-' || i || '"}')) FROM generate_series(1, $2::int) i))`, run, n)
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, item, state, attempt, generation, epoch, seq, started_at, attempt_at, finished_at, reason, log_day)
		SELECT $1, 1, 'part-' || i, state, CASE WHEN i % 1000 = 5 THEN 2 ELSE 1 END, 1, 1, i, b, b, CASE WHEN state <> 'running' THEN b + interval '3 s' END,
		       CASE state WHEN 'failed' THEN 'exit status 1' ELSE '' END, current_date
		  FROM generate_series(1, $2::int) i
		 CROSS JOIN LATERAL (SELECT now() - interval '1 h' + i * interval '1 h' / $2::int AS b) x
		 CROSS JOIN LATERAL (SELECT CASE i % 100 WHEN 1 THEN 'failed' WHEN 3 THEN 'running' ELSE 'succeeded' END AS state) y
		 WHERE i % 100 <> 4`, run, n)
	b.exec(t, `INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, log_day, started_at, finished_at)
		SELECT $1, 0, '', 0, a, 1, 'failed', current_date, now() - interval '1 h', now() - interval '59 min' FROM generate_series(1, 20) a`, run)
	b.exec(t, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, lines)
		SELECT current_date, $1, step, item, 0, attempt, n, 1 + n % 2, now(), convert_to(repeat(repeat('a line of a log, ', 6) || E'\n', 100), 'UTF8'), n * 100 + 100
		  FROM generate_series(0, 9) n, (VALUES (0, '', 21), (1, 'part-1', 1)) v (step, item, attempt)`, run)
	b.exec(t, `INSERT INTO oarlock.events (run_id, kind, step, item, alt, worker) SELECT $1, CASE WHEN i % 2 = 0 THEN 'skip' ELSE 'lost' END, CASE WHEN i % 2 = 0 THEN 1 END, 'part-' || i, 0, 'worker' FROM generate_series(1, $2::int) i`, run, n)
	b.exec(t, "INSERT INTO oarlock.controls (run_id, verb, by) SELECT $1, 'pause', 'ana' FROM generate_series(1, 1000) i", run)
	b.exec(t, "ANALYZE oarlock.tasks, oarlock.events, oarlock.controls")
	return run
}

// broad is a run of 600 steps: half of them with 20 items, each of which ran in another second.
func (b *testBundle) broad(t *testing.T) queue.RunID {
	t.Helper()
	var dag strings.Builder
	dag.WriteString("name: broad\nsteps:\n")
	for i := range 300 {
		fmt.Fprintf(&dag, "  - {id: a%d, run: \"true\"}\n  - {id: b%d, foreach: {items: [a]}, run: \"true\", depends: [a%d]}\n", i, i, i)
	}
	b.put(t, dag.String())
	run := b.enqueue(t, queue.Request{DAG: "broad"})
	b.exec(t, "UPDATE oarlock.runs SET state = 'failed', started_at = now() - interval '1 h', finished_at = now() - interval '1 min', queue_deadline = NULL WHERE run_id = $1", run)
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, finished_at, log_day, reason, grown)
		SELECT $1, s, CASE WHEN s % 10 = 0 THEN 'failed' ELSE 'succeeded' END, 1, 1, 1, s, now() - interval '1 h', now() - interval '1 min', current_date, 'a reason', CASE WHEN s % 2 = 1 THEN
		       jsonb_build_object('generation', 1, 'items', (SELECT jsonb_agg(jsonb_build_object('key', i::text, 'value', '1')) FROM generate_series(1, 20) i)) END
		  FROM generate_series(0, 599) s`, run)
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, item, state, attempt, generation, epoch, seq, started_at, finished_at, log_day)
		SELECT $1, s, i::text, CASE i % 5 WHEN 0 THEN 'failed' WHEN 1 THEN 'skipped' ELSE 'succeeded' END, 1, 1, 1, i, now() - interval '1 h' + i * interval '1 s', now() - interval '1 min' - i * interval '1 s', current_date
		  FROM generate_series(1, 599, 2) s, generate_series(1, 20) i`, run)
	return run
}

// pagesOf are paths below a run's, each with the most statements that it may cost: four, and a fifth if the panel shows an item
// that no list on the page has.
func pagesOf(step, foreach, item string) map[string]int {
	inPanel := "&step=" + foreach + "&item=" + item
	return map[string]int{
		"?step=" + step: 4, "?step=" + step + "&tab=outputs": 4, "?step=" + step + "&tab=attempts": 4, "?step=" + step + "&tab=definition": 4,
		"?step=" + step + "&q=log": 4, "?step=" + step + "&zoom=" + foreach + "&idle=1": 4, "?step=" + foreach: 4, "?" + inPanel: 5, "?" + inPanel + "&tab=attempts": 4,
		"?view=graph&step=" + step: 4, "?view=graph" + inPanel: 4,
		"?view=tasks&step=" + step: 4, "?view=tasks&step=" + foreach: 4, "?view=tasks" + inPanel + "&state=failed": 4, "?view=tasks&find=99" + inPanel: 5,
		"?view=events&step=" + step: 4, "?view=events" + inPanel: 5,
		"?view=params&step=" + step: 4, "?view=params&step=" + foreach: 4, "?view=params" + inPanel: 5,
		"/steps/" + step: 3, "/steps/" + step + "?tab=outputs": 3, "/steps/" + foreach: 3, "/steps/" + foreach + "?item=" + item: 4,
		"/steps/" + step + "/log": 3, "/steps/" + step + "/log?from=100": 3, "/steps/" + foreach + "/log?item=" + item: 4,
	}
}

// alikeCost is one more statement for the page of a failed run, which compares the run with others. Pages of its steps do not.
func alikeCost(path string) int {
	if strings.HasPrefix(path, "?") {
		return 1
	}
	return 0
}

func TestPages_AreBoundedInAll(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	n, rounds := 2_000, 1
	if *nightly {
		n, rounds = 100_000, 20
	}
	gallery, broad := fmt.Sprintf("/runs/%d", b.gallery(t, n)), fmt.Sprintf("/runs/%d", b.broad(t))
	for range 60 {
		b.ask(t, b.enqueue(t, queue.Request{}))
	}
	sent := b.count(t)
	paths := map[string]int{"/runs": 1, "/runs?dag=none": 2, "/approvals": 1, gallery: 6, broad: 6}
	for path, most := range pagesOf("scan", "resize", "part-1") {
		paths[gallery+path] = most + alikeCost(path)
	}
	for path, most := range pagesOf("a0", "b10", "5") {
		if *nightly {
			paths[broad+path] = most + alikeCost(path)
		}
	}
	for path, most := range paths {
		b.page(t, path, http.StatusOK) // the version of the DAG is read once
		sent.Take()
		page := b.page(t, path, http.StatusOK)
		if asked := sent.Take(); len(asked) > most || len(asked) == 0 {
			t.Errorf("%s costs %d statements, at most %d: %s", path, len(asked), most, strings.Join(asked, ", "))
		}
		elements := len(elementText.FindAllString(page, -1))
		if elements > maxElements || len(page) > maxPage {
			t.Errorf("%s has %d elements and %d KiB, at most %d and %d", path, elements, len(page)>>10, maxElements, maxPage>>10)
		}
		if *nightly {
			took := b.times(t, path, rounds)
			t.Logf("%-60s best %6.1f ms, p95 %6.1f ms, %5d elements, %3d KiB", path, milliseconds(took[0]), milliseconds(took[rounds*19/20]), elements, len(page)>>10)
		}
	}
}

var elementText = regexp.MustCompile(`<[a-zA-Z]`)

// times are how long requests for a page take, the quickest first.
func (b *testBundle) times(t *testing.T, path string, rounds int) []time.Duration {
	t.Helper()
	took := make([]time.Duration, rounds)
	for i := range took {
		began := time.Now()
		b.page(t, path, http.StatusOK)
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// The events of a run with few items include all of them, and nothing that the panel shows is read twice.
func TestEvents_CostOneStatementMoreForItems(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	run := b.gallery(t, 20)
	b.exec(t, "DELETE FROM oarlock.controls WHERE run_id = $1", run)
	sent := b.count(t)
	for _, item := range []string{"", "&item=part-1"} {
		path := fmt.Sprintf("/runs/%d?view=events&step=resize%s", run, item)
		b.page(t, path, http.StatusOK)
		sent.Take()
		page := b.page(t, path, http.StatusOK)
		if asked := sent.Take(); len(asked) != 6 {
			t.Errorf("%s: %s", path, strings.Join(asked, ", "))
		}
		wantTexts(t, page, "resize/part-1 failed: exit status 1", "scan attempt 20 failed")
	}
}
