package queue_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

func ids(runs []queue.Run) (all []queue.RunID) {
	for i := range runs {
		all = append(all, runs[i].ID)
	}
	return all
}

func TestList_FiltersAndShowsTheNewestFirst(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	d.put(t, "name: other\nqueue: slow\nsteps: [{id: a, run: \"true\"}]\n")
	ask := func(r queue.Request) queue.RunID {
		id, err := d.store.Enqueue(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	labelled, later := report(""), report("")
	labelled.Labels, later.RunAt = map[string]string{"a": "b"}, time.Now().Add(time.Hour)
	one, two, three, four, five := ask(report("")), ask(labelled), ask(later), ask(queue.Request{DAG: "other"}), ask(queue.Request{DAG: "other"})
	d.exec(t, "UPDATE oarlock.runs SET created_at = now() - interval '1 day' WHERE run_id <= $1", two)
	d.end(t, one, "failed")
	d.claim(t, two)
	d.exec(t, "UPDATE oarlock.runs SET parent_run = $2 WHERE run_id = $1", four, one)
	for name, c := range map[string]struct {
		filter queue.Filter
		want   []queue.RunID
	}{
		"all":           {queue.Filter{}, []queue.RunID{five, four, three, two, one}},
		"dag":           {queue.Filter{DAG: "report"}, []queue.RunID{three, two, one}},
		"unknown dag":   {queue.Filter{DAG: "reprot"}, nil},
		"queue":         {queue.Filter{Queue: "slow"}, []queue.RunID{five, four}},
		"unknown queue": {queue.Filter{Queue: "none"}, nil},
		"scheduled":     {queue.Filter{States: []string{"scheduled"}}, []queue.RunID{three}},
		"queued":        {queue.Filter{States: []string{"queued"}}, []queue.RunID{five, four}},
		"states":        {queue.Filter{States: []string{"failed", "running", "failed"}}, []queue.RunID{two, one}},
		"labels":        {queue.Filter{Labels: map[string]string{"a": "b", "team": "billing"}}, []queue.RunID{two}},
		"parent":        {queue.Filter{Parent: one}, []queue.RunID{four}},
		"since":         {queue.Filter{Since: time.Now().Add(-time.Hour)}, []queue.RunID{five, four, three}},
		"before":        {queue.Filter{Before: three}, []queue.RunID{two, one}},
		"together":      {queue.Filter{DAG: "report", States: []string{"running", "failed"}, Before: two}, []queue.RunID{one}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, err := d.store.List(t.Context(), c.filter)
			if err != nil || !slices.Equal(ids(page.Runs), c.want) || page.Next != 0 {
				t.Errorf("%v, next %d, %v; want %v", ids(page.Runs), page.Next, err, c.want)
			}
		})
	}
	if run := d.get(t, two); run.DAG != "report" || run.Labels["a"] != "b" {
		t.Errorf("%+v", run)
	}
	_, err := d.store.List(t.Context(), queue.Filter{States: []string{"done"}})
	wantError(t, err, nil, "OA013")
	for _, limit := range []int{-1, queue.MaxPage + 1} {
		if _, err := d.store.List(t.Context(), queue.Filter{Limit: limit}); err == nil {
			t.Errorf("a page of %d", limit)
		}
	}
}

func TestList_PagesHoldEachRunOnce(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	var want []queue.RunID
	for range 7 {
		want = append([]queue.RunID{d.enqueue(t, d.store)}, want...)
	}
	var got []queue.RunID
	filter := queue.Filter{Limit: 3, States: []string{"queued", "running"}}
	for pages := 0; ; pages++ {
		page, err := d.store.List(t.Context(), filter)
		if err != nil || pages > 3 {
			t.Fatal(pages, err)
		}
		got = append(got, ids(page.Runs)...)
		d.enqueue(t, d.store) // it is newer than every page to come
		if filter.Before = page.Next; page.Next == 0 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// manyRuns fills a table of runs. Nearly all have succeeded, one in a thousand did not, and some wait. One DAG ran now and then
// long ago, one run has children, two have a label, and a thousand runs are of the last hour.
const manyRuns = `
	INSERT INTO oarlock.runs (run_id, dag_id, version, lane_id, state, run_at, ready_at, logical_at, trigger, root_id, submitted_by, created_at, finished_at, parent_run, labels)
	OVERRIDING SYSTEM VALUE
	SELECT i, CASE WHEN i <= $1::bigint / 2 AND i % 500 = 0 THEN 2 ELSE 1 END, 1, 1, s.state, now(), now(), now(), 'sql', i, session_user,
	       now() - ($1::bigint - i) * interval '1 hour' / 1000, CASE WHEN s.state <> 'queued' THEN now() END, CASE WHEN i BETWEEN 30000 AND 30020 THEN 5 END,
	       CASE WHEN i IN (10, 500) THEN jsonb_build_object('rare', 'yes') ELSE '{}' END
	  FROM generate_series(1, $1::bigint) i,
	       LATERAL (SELECT CASE WHEN i % 1000 = 7 THEN 'failed' WHEN i % 10000 = 11 THEN 'canceled' WHEN i % 2000 = 13 THEN 'queued' ELSE 'succeeded' END AS state) s`

// listed returns how many buffers a page reads, including all that the statement calls.
func (d *clientBundle) listed(t *testing.T, args pgx.StrictNamedArgs) (rows, buffers int) {
	t.Helper()
	all := pgx.StrictNamedArgs{"states": []*string{nil}, "dag": nil, "queue": nil, "labels": nil, "parent": nil, "since": nil, "before": nil, "rows": 10}
	maps.Copy(all, args)
	var text []byte
	if err := d.conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql.Named("queue/list"), all).Scan(&text); err != nil {
		t.Fatal(err)
	}
	p := pgtest.Explained(t, text)
	return int(p.Rows), p.Buffers()
}

func TestList_FindsAPageAmongManyRunsByAnIndex(t *testing.T) {
	t.Parallel()
	n := 100_000
	if queue.Nightly() {
		n = 1_000_000
	}
	d := newClientBundle(t)
	d.put(t, "name: rare\nsteps: [{id: a, run: \"true\"}]\n")
	d.exec(t, manyRuns, n)
	d.exec(t, "VACUUM ANALYZE oarlock.runs")
	d.listed(t, nil) // catalogs are read once
	table := value[int](t, d, "SELECT pg_relation_size('oarlock.runs') / 8192")
	const most = 1_200 // however large the table is
	if table < 2*most {
		t.Fatalf("a table of %d pages shows nothing", table)
	}
	none, _ := d.listed(t, pgx.StrictNamedArgs{"dag": "nothing"})
	for name, c := range map[string]struct {
		args pgx.StrictNamedArgs
		rows int
	}{
		"all":                  {nil, 10},
		"next page":            {pgx.StrictNamedArgs{"before": 777}, 10},
		"dag":                  {pgx.StrictNamedArgs{"dag": "rare"}, 10},
		"dag, oldest page":     {pgx.StrictNamedArgs{"dag": "rare", "before": 1000}, 1},
		"failed":               {pgx.StrictNamedArgs{"states": []string{"failed"}}, 10},
		"at work, none":        {pgx.StrictNamedArgs{"states": []string{"running", "waiting", "paused"}}, 0},
		"queued":               {pgx.StrictNamedArgs{"states": []string{"queued"}}, 10},
		"over":                 {pgx.StrictNamedArgs{"states": []string{"succeeded", "failed", "canceled"}}, 10},
		"dag and state":        {pgx.StrictNamedArgs{"dag": "report", "states": []string{"canceled"}}, 10},
		"children":             {pgx.StrictNamedArgs{"parent": 5}, 10},
		"since an hour":        {pgx.StrictNamedArgs{"since": time.Now().Add(-time.Hour)}, 10},
		"since, fewer than 10": {pgx.StrictNamedArgs{"since": time.Now().Add(-20 * time.Second)}, 0},
		"failed since an hour": {pgx.StrictNamedArgs{"states": []string{"failed"}, "since": time.Now().Add(-2 * time.Hour)}, 1},
	} {
		rows, buffers := d.listed(t, c.args)
		t.Logf("%-22s %4d rows %6d buffers of a table of %d", name, rows, buffers, table)
		if rows < c.rows || buffers > most {
			t.Errorf("%s: %d rows, want %d; %d buffers of a table of %d, at most %d", name, rows, c.rows, buffers, table, most)
		}
	}
	if none != 0 {
		t.Errorf("%d rows of a dag that is not there", none)
	}
}

// Runs are searched for conditions that no index has, so many at a time. The next page goes on behind them.
func TestList_LooksThroughSoManyRuns(t *testing.T) {
	t.Parallel()
	const n, look = 20_000, 2_000
	d := newClientBundle(t)
	d.put(t, "name: rare\nqueue: slow\nsteps: [{id: a, run: \"true\"}]\n")
	d.exec(t, manyRuns, n)
	d.exec(t, "VACUUM ANALYZE oarlock.runs")
	rare := map[string]string{"rare": "yes"}
	for name, c := range map[string]struct {
		filter queue.Filter
		want   []queue.RunID // on all pages
		pages  int
	}{
		"a label":                 {queue.Filter{Labels: rare}, []queue.RunID{500, 10}, n / look},
		"a label and a DAG":       {queue.Filter{Labels: rare, DAG: "rare"}, []queue.RunID{500}, 1},
		"a label and a state":     {queue.Filter{Labels: rare, States: []string{"failed"}}, nil, 1},
		"a label and states":      {queue.Filter{Labels: rare, States: []string{"failed", "succeeded"}, Before: 1000}, []queue.RunID{500, 10}, 1},
		"a label since a moment":  {queue.Filter{Labels: rare, Since: time.Now().Add(-time.Hour)}, nil, 1},
		"a queue":                 {queue.Filter{Queue: "slow"}, nil, n / look},
		"a queue and what waits":  {queue.Filter{Queue: "slow", States: []string{"queued"}}, nil, 1},
		"children with a label":   {queue.Filter{Parent: 5, Labels: rare}, nil, 1},
		"an unknown DAG, a label": {queue.Filter{DAG: "nothing", Labels: rare}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var got []queue.RunID
			pages := 0
			c.filter.Look = look
			for more := true; more; more = c.filter.Before != 0 {
				page, err := d.store.List(t.Context(), c.filter)
				if err != nil || pages > n/look {
					t.Fatal(pages, err)
				}
				got = append(got, ids(page.Runs)...)
				c.filter.Before = page.Next
				pages++
			}
			if !slices.Equal(got, c.want) || pages != c.pages && pages != c.pages+1 { // the last may be where there is nothing more
				t.Errorf("%v on %d pages, want %v on %d", got, pages, c.want, c.pages)
			}
		})
	}
	whole, err := d.store.List(t.Context(), queue.Filter{States: []string{"succeeded", "failed"}, Look: look})
	same, err2 := d.store.List(t.Context(), queue.Filter{States: []string{"succeeded", "failed"}})
	if err != nil || err2 != nil || len(whole.Runs) != queue.DefaultPage || !slices.Equal(ids(whole.Runs), ids(same.Runs)) || whole.Next != same.Next {
		t.Errorf("a full page is %v, next %d, not %v, %d; %v, %v", ids(whole.Runs), whole.Next, ids(same.Runs), same.Next, err, err2)
	}
	args := pgx.StrictNamedArgs{"states": []*string{nil}, "dag": nil, "queue": nil, "labels": `{"rare": "yes"}`, "parent": nil, "since": nil, "before": nil, "rows": 50, "look": look}
	p, _ := d.read(t, "list_looked", args)
	table := value[int](t, d, "SELECT pg_relation_size('oarlock.runs') / 8192")
	if most := table / 3; p.Buffers() > most { // a tenth of the table, and the index twice
		t.Errorf("%d buffers of a table of %d, at most %d", p.Buffers(), table, most)
	}
	t.Logf("%d buffers of a table of %d", p.Buffers(), table)
}
