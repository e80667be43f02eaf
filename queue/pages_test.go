package queue_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

const pagesDAG = `
name: pages
steps:
  - {id: scan, run: "true", outputs: [files]}
  - {id: fan, foreach: {items: [a, b, c]}, run: "true", depends: [scan]}
  - {id: load, run: "true", depends: [fan]}
  - {id: later, foreach: {items: [x]}, run: "true", depends: [load]}
  - {id: confirm, action: approval, with: {prompt: "sure?"}, depends: [load]}
handler_on: {exit: {run: "true"}, failure: {run: "true"}}
`

// pagesRun returns a run in its second generation. Tasks that grew before the retry and not again are history, and so are
// replacements. Of the items, a and Big succeeded at once, and c by its second replacement. d is replaced and the replacement has
// not begun. e has two replacements in a row, the second of which has not begun. f failed in its replacement. Of the seven items,
// z has no row.
func pagesRun(t *testing.T, d *clientBundle, store *queue.Store) queue.RunID {
	t.Helper()
	run, err := store.Enqueue(t.Context(), queue.Request{DAG: "pages"})
	if err != nil {
		t.Fatal(err)
	}
	d.claim(t, run)
	d.exec(t, "UPDATE oarlock.runs SET generation = 2 WHERE run_id = $1", run)
	d.exec(t, `INSERT INTO oarlock.tasks (run_id, step, item, alt, state, attempt, generation, grown, started_at, attempt_at, finished_at, outputs, last_line, reason, exit_code, epoch, seq)
		SELECT $1, v.step, v.item, v.alt, v.state, v.attempt, v.generation, v.grown::jsonb, '2026-11-20Z'::timestamptz + began * interval '1 min',
		       '2026-11-20Z'::timestamptz + began * interval '1 min', '2026-11-20Z'::timestamptz + ended * interval '1 min', v.outputs::jsonb, v.line, coalesce(v.line, ''), v.code, 1, row_number() OVER ()
		  FROM (VALUES
		(0, '', 0, 'succeeded', 3, 1, NULL, 0, 1, '{"files": "7"}', 'bye', 0),
		(1, '', 0, 'running', 0, 2, '{"generation": 2, "items": [{"key": "a", "value": "1"}, {"key": "Big", "value": "1"}, {"key": "c", "value": "1"}, {"key": "d", "value": "1"}, {"key": "e", "value": "1"}, {"key": "f", "value": "1"}, {"key": "z", "value": "1"}]}', 1, NULL, NULL, NULL, NULL),
		(1, 'a', 0, 'succeeded', 1, 2, NULL, 1, 2, NULL, NULL, 0),
		(1, 'a', 1, 'failed', 1, 1, NULL, 1, 2, NULL, NULL, 9),
		(1, 'Big', 0, 'succeeded', 2, 2, NULL, 3, 5, NULL, NULL, 0),
		(1, 'c', 0, 'replaced', 2, 2, '{"generation": 2, "rule": 0, "first_alt": 1, "count": 1}', 2, 3, NULL, NULL, 1),
		(1, 'c', 1, 'replaced', 1, 2, '{"generation": 2, "rule": 0, "first_alt": 2, "count": 1}', 3, 4, NULL, NULL, 1),
		(1, 'c', 2, 'succeeded', 1, 2, NULL, 4, 6, NULL, NULL, 0),
		(1, 'd', 0, 'replaced', 1, 2, '{"generation": 2, "rule": 0, "first_alt": 1, "count": 1}', 2, 3, NULL, NULL, 1),
		(1, 'd', 1, 'failed', 1, 1, NULL, 1, 1, NULL, NULL, 1),
		(1, 'e', 0, 'replaced', 1, 2, '{"generation": 2, "rule": 0, "first_alt": 1, "count": 2}', 2, 3, NULL, NULL, 1),
		(1, 'e', 1, 'succeeded', 1, 2, NULL, 3, 7, NULL, NULL, 1),
		(1, 'f', 0, 'replaced', 1, 2, '{"generation": 2, "rule": 0, "first_alt": 1, "count": 2}', 2, 3, NULL, NULL, 1),
		(1, 'f', 1, 'failed', 1, 2, NULL, 3, 4, NULL, 'oops', 1),
		(1, 'f', 2, 'upstream_failed', 0, 2, NULL, NULL, 4, NULL, NULL, NULL),
		(1, 'gone', 0, 'failed', 1, 1, NULL, 1, 2, NULL, NULL, 1),
		(2, '', 0, 'replaced', 1, 2, '{"generation": 2, "rule": 0, "first_alt": 1, "count": 1}', 5, 6, NULL, NULL, 1),
		(2, '', 1, 'retrying', 2, 2, NULL, 6, NULL, NULL, NULL, 1),
		(2, '', 2, 'succeeded', 1, 1, NULL, 6, 7, NULL, NULL, 1),
		(3, '', 0, 'pending', 0, 2, NULL, NULL, NULL, NULL, NULL, NULL),
		(3, 'x', 0, 'succeeded', 1, 1, NULL, 1, 2, NULL, NULL, 0),
		(4, '', 0, 'waiting', 1, 2, NULL, 6, NULL, NULL, NULL, NULL),
		(6, '', 0, 'running', 1, 2, NULL, 6, NULL, NULL, NULL, NULL)
		) v (step, item, alt, state, attempt, generation, grown, began, ended, outputs, line, code)`, run)
	d.exec(t, `INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, exit_code, signal, started_at, finished_at)
		VALUES ($1, 0, '', 0, 1, 1, 'failed', 3, NULL, '2026-11-20Z', '2026-11-20Z'), ($1, 0, '', 0, 2, 1, 'lost', NULL, 9, '2026-11-20Z', NULL),
		       ($1, 2, '', 1, 1, 2, 'failed', 1, NULL, '2026-11-20Z', '2026-11-20Z'), ($1, 4, '', 0, 1, 1, 'canceled', NULL, NULL, NULL, NULL)`, run)
	d.exec(t, `INSERT INTO oarlock.approvals_open (run_id, step, item, alt, prompt, inputs, since) VALUES ($1, 4, '', 0, 'sure?', '[{"name": "n", "required": true}]', now())`, run)
	return run
}

func newPages(t *testing.T) (*clientBundle, queue.RunID) {
	t.Helper()
	d := newClientBundle(t)
	d.put(t, pagesDAG)
	return d, pagesRun(t, d, d.store)
}

// allTasks are the tasks that Tasks returns.
func allTasks(t *testing.T, store *queue.Store, run queue.RunID) []queue.Task {
	t.Helper()
	tasks, err := store.Tasks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func summaries(t *testing.T, store *queue.Store, run queue.RunID) []queue.StepSummary {
	t.Helper()
	steps, err := store.StepSummaries(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// wantSameSteps wants the steps of a run to be the same as in Tasks.
func wantSameSteps(t *testing.T, store *queue.Store, run queue.RunID) {
	t.Helper()
	var want, got []queue.Task
	for _, task := range allTasks(t, store, run) {
		if task.Outputs = nil; task.Item == "" {
			want = append(want, task)
		}
	}
	for _, s := range summaries(t, store, run) {
		got = append(got, s.Task)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps are not those of Tasks: %s", diff)
	}
}

func asJSON(t *testing.T, v map[string]int) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStepSummaries_CountsItems(t *testing.T) {
	t.Parallel()
	d, run := newPages(t)
	wantSameSteps(t, d.store, run)
	var got []string
	for _, s := range summaries(t, d.store, run) {
		states := asJSON(t, s.States)
		line := fmt.Sprintf("%s %s %d retried %d %s", s.Step, s.State, s.Items, s.Retried, states)
		if !s.AttemptAt.IsZero() {
			line += " at " + s.AttemptAt.UTC().Format("4")
		}
		for _, a := range s.Tries {
			line += fmt.Sprintf(" %s%d:%s", a.Step, a.Attempt, a.State)
		}
		got = append(got, line)
	}
	want := []string{
		"scan succeeded 0 retried 2 null at 0 scan1:failed scan2:lost",
		`fan running 7 retried 2 {"failed":1,"pending":3,"succeeded":3} at 1`,
		"load replaced 0 retried 0 null at 5",
		"load~1 retrying 0 retried 1 null at 6 load~11:failed",
		"later pending 0 retried 0 null",
		"confirm waiting 0 retried 0 null at 6 confirm1:canceled",
		"@exit running 0 retried 0 null at 6",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	begin := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	fan := summaries(t, d.store, run)[1]
	if fan.Failed != "f" || !fan.First.Equal(begin.Add(time.Minute)) || !fan.Last.IsZero() {
		t.Errorf("%+v", fan)
	}
	d.exec(t, "ALTER TABLE oarlock.tasks DISABLE TRIGGER tasks_guard")
	d.exec(t, "UPDATE oarlock.tasks SET state = 'succeeded', generation = 2, finished_at = started_at WHERE run_id = $1 AND item = 'd' AND alt = 1", run)
	d.exec(t, `UPDATE oarlock.tasks SET grown = jsonb_set(grown, '{items}', '[1, 2, 3, 4, 5]') WHERE run_id = $1 AND step = 1 AND item = '' AND alt = 0`, run)
	d.exec(t, `UPDATE oarlock.tasks SET grown = jsonb_set(grown, '{count}', '1') WHERE run_id = $1 AND step = 1 AND item = 'e' AND alt = 0`, run)
	d.exec(t, "DELETE FROM oarlock.tasks WHERE run_id = $1 AND item = 'f'", run)
	if fan := summaries(t, d.store, run)[1]; fan.States["succeeded"] != 5 || len(fan.States) != 1 || !fan.Last.Equal(begin.Add(7*time.Minute)) || fan.Failed != "" {
		t.Errorf("%+v", fan)
	}
}

func TestStepSummaries_OfOtherRuns(t *testing.T) {
	t.Parallel()
	d, _ := newPages(t)
	run := d.enqueue(t, d.store) // no tasks at all
	wantSameSteps(t, d.store, run)
	d.exec(t, "UPDATE oarlock.runs SET queue_deadline = NULL WHERE run_id = $1", run)
	d.end(t, run, "canceled")
	wantSameSteps(t, d.store, run)
	if steps := summaries(t, d.store, run); len(steps) != 3 || steps[0].State != "canceled" || steps[0].States != nil || steps[0].Tries != nil {
		t.Errorf("%+v", steps)
	}
	page, err := d.store.TaskPage(t.Context(), queue.TaskQuery{Run: run})
	if err != nil || len(page.Tasks) != 0 || page.Next != nil {
		t.Errorf("%+v, %v", page, err)
	}
	if bands, err := d.store.Bands(t.Context(), run, []queue.BandSpan{{Step: "fan", From: time.Unix(0, 0), To: time.Now()}}, 3); err != nil || len(bands) != 0 {
		t.Errorf("%v, %v", bands, err)
	}
}

func taskNames(tasks []queue.Task) (names []string) {
	for _, task := range tasks {
		names = append(names, strings.TrimSuffix(task.Step+"/"+task.Item, "/"))
	}
	return names
}

func TestTaskPage_IsWhatTasksHas(t *testing.T) {
	t.Parallel()
	d, run := newPages(t)
	want := map[string]queue.Task{}
	for _, task := range allTasks(t, d.store, run) {
		task.Outputs, task.Items = nil, 0 // steps have both, a page of tasks has neither
		want[task.Step+"/"+task.Item] = task
	}
	for _, limit := range []int{0, 1, 4} {
		got := map[string]queue.Task{}
		q := queue.TaskQuery{Run: run, Limit: limit}
		for pages := 0; ; pages++ {
			page, err := d.store.TaskPage(t.Context(), q)
			if err != nil || pages > len(want) {
				t.Fatal(pages, taskNames(page.Tasks), err)
			}
			for _, task := range page.Tasks {
				got[task.Step+"/"+task.Item] = task
			}
			if page.Next == nil {
				break
			}
			q.After = *page.Next
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %d: %s", limit, diff)
		}
	}
}

func TestTaskPage_Filters(t *testing.T) {
	t.Parallel()
	d, run := newPages(t)
	for name, c := range map[string]struct {
		q    queue.TaskQuery
		want string
	}{
		"step":         {queue.TaskQuery{Step: "load"}, "load load~1"},
		"replacement":  {queue.TaskQuery{Step: "fan~1"}, "fan~1/c fan~1/e fan~1/f"},
		"no such step": {queue.TaskQuery{Step: "nothing"}, ""},
		"states":       {queue.TaskQuery{States: []string{"retrying", "waiting", "failed"}}, "fan~1/f load~1 confirm"},
		"no states":    {queue.TaskQuery{Step: "load", States: []string{}}, "load load~1"},
		"item":         {queue.TaskQuery{Item: "bI"}, "fan/Big"},
		"item, as is":  {queue.TaskQuery{Item: "_"}, ""},
		"after":        {queue.TaskQuery{After: queue.TaskKey{Step: 2, Item: "f", Alt: 1}, Step: "fan"}, "fan~2/f"},
		"all of these": {queue.TaskQuery{Step: "fan", Item: "c", States: []string{"replaced"}, Limit: 1}, "fan/c"},
	} {
		c.q.Run = run
		page, err := d.store.TaskPage(t.Context(), c.q)
		if got := strings.Join(taskNames(page.Tasks), " "); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
	for _, limit := range []int{-1, queue.MaxTasks + 1} {
		if _, err := d.store.TaskPage(t.Context(), queue.TaskQuery{Run: run, Limit: limit}); err == nil {
			t.Errorf("a page of %d tasks", limit)
		}
	}
}

func TestTaskDetail_HasAttempts(t *testing.T) {
	t.Parallel()
	d, run := newPages(t)
	for _, want := range allTasks(t, d.store, run) {
		want.Items = 0 // steps have it, a single task does not
		got, err := d.store.TaskDetail(t.Context(), run, want.Step, want.Item)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Task); diff != "" {
			t.Errorf("%s/%s: %s", want.Step, want.Item, diff)
		}
	}
	shown := func(step, item string) (line string) {
		task, err := d.store.TaskDetail(t.Context(), run, step, item)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range task.Attempts {
			line += fmt.Sprintf("%s/%s %d %s %d; ", a.Step, a.Item, a.Attempt, a.State, a.Signal)
		}
		return line + task.LastLine
	}
	for task, want := range map[string]string{
		"scan/": "scan/ 1 failed 0; scan/ 2 lost 9; scan/ 3 succeeded 0; bye", "fan~1/f": "fan~1/f 1 failed 0; oops",
		"later/": "", "confirm/": "confirm/ 1 canceled 0; ",
	} {
		step, item, _ := strings.Cut(task, "/")
		if got := shown(step, item); got != want {
			t.Errorf("%s: %q, want %q", task, got, want)
		}
	}
	d.exec(t, `INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state) SELECT $1, 2, '', 1, n, 2, 'failed' FROM generate_series(2, 150) n`, run)
	d.exec(t, "UPDATE oarlock.tasks SET attempt = 151 WHERE run_id = $1 AND step = 2 AND alt = 1", run)
	if task, err := d.store.TaskDetail(t.Context(), run, "load~1", ""); err != nil || len(task.Attempts) != 100 || task.Attempts[0].Attempt != 52 {
		t.Errorf("%d attempts, %v", len(task.Attempts), err)
	}
	if s := summaries(t, d.store, run)[3]; len(s.Tries) != 20 || s.Tries[0].Attempt != 131 || s.Retried != 150 {
		t.Errorf("%+v", s)
	}
	for _, none := range [][2]string{{"fan", "gone"}, {"fan", "z"}, {"fan~1", "a"}, {"load~2", ""}, {"@failure", ""}, {"nothing", ""}, {"later", "x"}, {"load~99", ""}} {
		_, err := d.store.TaskDetail(t.Context(), run, none[0], none[1])
		wantError(t, err, queue.ErrNotFound, "")
	}
}

func TestBands_AddUp(t *testing.T) {
	t.Parallel()
	d, run := newPages(t)
	at := func(minute int) time.Time { return time.Date(2026, 11, 20, 0, minute, 0, 0, time.UTC) }
	fan := func(from, to int) queue.BandSpan { return queue.BandSpan{Step: "fan", From: at(from), To: at(to)} }
	bands := func(n int, spans ...queue.BandSpan) map[string][]queue.Band {
		t.Helper()
		all, err := d.store.Bands(t.Context(), run, spans, n)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	show := func(n int, span queue.BandSpan) string {
		var lines []string
		for _, b := range bands(n, span)["fan"] {
			lines = append(lines, fmt.Sprintf("%d-%d %s", b.From.Minute(), b.To.Minute(), asJSON(t, b.States)))
		}
		return strings.Join(lines, "\n")
	}
	// An item that begins or ends at a full minute is in the band that ends then; d and e are under way until their last
	// replacement ends.
	want := `0-1 {"running":1}
1-2 {"running":4,"succeeded":1}
2-3 {"running":5,"succeeded":1}
3-4 {"failed":1,"running":4,"succeeded":1}
4-5 {"failed":1,"running":3,"succeeded":2}
5-6 {"failed":1,"running":2,"succeeded":3}`
	if diff := cmp.Diff(want, show(6, fan(0, 6))); diff != "" {
		t.Error(diff)
	}
	if got, want := show(1, fan(5, 7)), `5-7 {"failed":1,"running":2,"succeeded":3}`; got != want {
		t.Errorf("what began before: %s, want %s", got, want)
	}
	if got := show(5, fan(-9, 0)); got != "" {
		t.Errorf("before anything began: %s", got)
	}
	d.exec(t, "UPDATE oarlock.tasks SET generation = 2 WHERE run_id = $1 AND step = 3", run)
	d.exec(t, `UPDATE oarlock.tasks SET grown = '{"generation": 2, "items": [{"key": "x", "value": "1"}]}' WHERE run_id = $1 AND step = 3 AND item = ''`, run)
	both := bands(2, fan(0, 2), queue.BandSpan{Step: "later", From: at(1), To: at(2)}, queue.BandSpan{Step: "scan", From: at(0), To: at(9)})
	if got, want := fmt.Sprint(both["later"][0].States, both["later"][1].States, both["fan"][0].States, len(both)), "map[running:1] map[succeeded:1] map[running:1] 2"; got != want {
		t.Errorf("each with a time of its own: %s, want %s", got, want)
	}
	if only := bands(1, fan(0, 9)); len(only) != 1 {
		t.Errorf("a step that was not asked for: %v", only)
	}
	for name, c := range map[string]struct {
		n     int
		spans []queue.BandSpan
	}{"no parts": {0, nil}, "too many parts": {201, nil}, "no time at all": {1, []queue.BandSpan{fan(1, 1)}}, "a step twice": {1, []queue.BandSpan{fan(0, 1), fan(1, 2)}}} {
		if _, err := d.store.Bands(t.Context(), run, c.spans, c.n); err == nil {
			t.Error(name)
		}
	}
}

func TestRunHead_SaysWhatIsUsual(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run := d.enqueue(t, d.store)
	d.claim(t, run)
	d.put(t, strings.Replace(reportDAG, "team: billing", "team: other", 1))
	head := func() *queue.RunHead {
		t.Helper()
		h, err := d.store.RunHead(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := head()
	if diff := cmp.Diff(d.get(t, run), &h.Run); diff != "" || h.Current != 2 || h.Usual != 0 || h.Drives != nil {
		t.Errorf("%s %+v", diff, h)
	}
	d.exec(t, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, started_at, finished_at)
		SELECT r.dag_id, 1, r.lane_id, CASE WHEN n % 2 = 0 THEN 'failed' ELSE 'succeeded' END, now(), now(), 'sql', 0, 'x', f - n * interval '1 s', f
		  FROM oarlock.runs r, generate_series(1, 99) n, LATERAL (SELECT now() - n * interval '1 min' AS f) x WHERE r.run_id = $1`, run)
	d.exec(t, `INSERT INTO oarlock.events (run_id, at, kind, worker, epoch, step, message)
		SELECT $1, now() + n * interval '1 s', CASE WHEN n % 10 = 0 THEN 'began' ELSE 'lost' END, 'w' || n, n, CASE WHEN n % 10 = 1 THEN 0 END, 'lost ' || n FROM generate_series(1, 30) n`, run)
	h = head() // the newest 20 that succeeded took 1, 3, … 39 s
	if h.Usual != 20*time.Second || len(h.Drives) != 20 {
		t.Fatalf("%+v", h)
	}
	if first := h.Drives[0]; first.Epoch != 6 || first.Worker != "w6" || first.Message != "lost 6" || first.At.IsZero() || h.Drives[19].Epoch != 29 {
		t.Errorf("%+v", h.Drives)
	}
	d.exec(t, "UPDATE oarlock.runs SET claim_id = NULL, worker_id = NULL, state = 'succeeded', started_at = now() - interval '1 day', finished_at = now() + interval '1 h' WHERE run_id = $1", run)
	if h := head(); h.Usual != 20*time.Second {
		t.Errorf("the run itself counts: %v", h.Usual)
	}
}

// Entries come from two clocks, one of which is behind. No entry is hidden or shown twice.
func TestJournal_ByPages(t *testing.T) {
	t.Parallel()
	d, run := newPages(t)
	d.exec(t, `INSERT INTO oarlock.events (run_id, at, kind, step, item, alt, epoch, worker, by, message)
		SELECT $1, now() + (n * 7 % 10) * interval '1 s', 'skip', 1, 'a', 1, n, 'w', 'me', 'e' || n FROM generate_series(1, 10) n`, run)
	d.exec(t, `INSERT INTO oarlock.controls (run_id, at, verb, by, step, args, decided_at, outcome, message)
		SELECT $1, now() + n * interval '2 s', 'pause', 'me', 'load', '{}', now(), 'refused', 'c' || n FROM generate_series(1, 4) n`, run)
	d.exec(t, `INSERT INTO oarlock.controls (run_id, step, verb, args, by) VALUES ($1, 'load', 'child_ended', '{"ref": "9", "outputs": {"a": 1}}', 'run 9')`, run)
	var whole []string
	for _, limit := range []int{0, 1, 4} {
		var got []string
		var events, controls []string
		for place := (queue.JournalPlace{}); ; {
			page, err := d.store.Journal(t.Context(), run, place, limit)
			if err != nil || len(got) > 30 {
				t.Fatal(got, err)
			}
			for _, e := range page.Entries {
				if e.Event != nil {
					events = append(events, strconv.FormatInt(e.Event.ID, 10))
					got = append(got, e.Event.Message)
				} else {
					controls = append(controls, strconv.FormatInt(e.Control.ID, 10))
					got = append(got, e.Control.Verb.String()+e.Control.Message)
				}
				if e.At().IsZero() {
					t.Errorf("%+v", e)
				}
			}
			if page.Next == nil {
				break
			}
			place = *page.Next
		}
		if len(events) != 10 || len(controls) != 5 {
			t.Errorf("by %d: %v", limit, got)
		}
		if whole == nil {
			whole = got
		}
		if !slices.Equal(got, whole) {
			t.Errorf("by %d: %v, want %v", limit, got, whole)
		}
	}
	page, err := d.store.Journal(t.Context(), run, queue.JournalPlace{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantEvents, err := d.store.Events(t.Context(), run, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantControls, err := d.store.Controls(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	var events []queue.Event
	var controls []queue.Control
	for _, e := range slices.Backward(page.Entries) {
		if e.Event != nil {
			events = append(events, *e.Event)
		} else {
			controls = append(controls, *e.Control)
		}
	}
	if diff := cmp.Diff(wantEvents, events) + cmp.Diff(wantControls, controls); diff != "" {
		t.Error(diff)
	}
}

func TestPages_RolesSeeTheirParts(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	d.put(t, pagesDAG)
	ana, bob := d.open(t, d.user(t, "ana", "oarlock_submit")), d.open(t, d.user(t, "bob", "oarlock_submit"))
	reader := d.open(t, d.user(t, "reader", "oarlock_read"))
	worker, admin := d.open(t, d.user(t, "worker", "oarlock_worker")), d.open(t, d.user(t, "admin", "oarlock_admin"))
	run := pagesRun(t, d, ana)
	d.exec(t, "INSERT INTO oarlock.events (run_id, kind) VALUES ($1, 'lost')", run)
	if _, err := ana.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbPause}); err != nil {
		t.Fatal(err)
	}
	d.exec(t, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, started_at, finished_at)
		SELECT r.dag_id, 1, r.lane_id, 'succeeded', now(), now(), 'sql', 0, 'x', now() - interval '1 min', now() FROM oarlock.runs r WHERE r.run_id = $1`, run)
	for name, read := range pageReads(t, run) {
		nobody := d.open(t, d.user(t, "nobody"+strings.ToLower(name)))
		for store, want := range map[*queue.Store]may{ana: works, bob: hidden, reader: works, worker: works, admin: works, nobody: submits} {
			if got := outcomeFor(t, read(store)); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		if got := outcomeFor(t, pageReads(t, 777)[name](reader)); got != hidden {
			t.Errorf("%s of a run that is not there: %s", name, got)
		}
	}
	for store, want := range map[*queue.Store]string{ana: "0s 1 3 2 2 retried 2", reader: "1m0s 1 3 2 2 retried 2"} {
		head, err1 := store.RunHead(t.Context(), run)
		task, err2 := store.TaskDetail(t.Context(), run, "scan", "")
		journal, err3 := store.Journal(t.Context(), run, queue.JournalPlace{}, 0)
		steps, err4 := store.StepSummaries(t.Context(), run)
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
			t.Fatal(err1, err2, err3, err4)
		}
		got := fmt.Sprintf("%s %d %d %d %d retried %d", head.Usual, len(head.Drives), len(task.Attempts), len(steps[0].Tries), len(journal.Entries), steps[0].Retried)
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func pageReads(t *testing.T, run queue.RunID) map[string]func(*queue.Store) error {
	return map[string]func(*queue.Store) error{
		"RunHead":       func(s *queue.Store) error { _, err := s.RunHead(t.Context(), run); return err },
		"StepSummaries": func(s *queue.Store) error { _, err := s.StepSummaries(t.Context(), run); return err },
		"TaskPage":      func(s *queue.Store) error { _, err := s.TaskPage(t.Context(), queue.TaskQuery{Run: run}); return err },
		"TaskDetail":    func(s *queue.Store) error { _, err := s.TaskDetail(t.Context(), run, "scan", ""); return err },
		"Bands": func(s *queue.Store) error {
			_, err := s.Bands(t.Context(), run, nil, 3)
			return err
		},
		"FailureHistory": func(s *queue.Store) error { _, err := s.FailureHistory(t.Context(), run); return err },
		"Journal":        func(s *queue.Store) error { _, err := s.Journal(t.Context(), run, queue.JournalPlace{}, 0); return err },
	}
}
