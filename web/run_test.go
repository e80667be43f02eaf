package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

const nightDAG = `
name: night
params: [{name: day, type: string}, {name: full, type: boolean, default: false}]
steps:
  - {id: each, run: "true", foreach: {items: [a, b, "c/d"]}}
  - {id: roll, run: "true", depends: [each], retry_policy: {limit: 2}}
  - {id: late, run: "true", depends: [roll]}
`

// night makes a run in which step roll failed in its second attempt, one item failed, and a worker was lost.
func (b *testBundle) night(t *testing.T) queue.RunID {
	t.Helper()
	spec, err := dagspec.Parse("night.yaml", []byte(nightDAG))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(t, b.db.URL).PutDAG(t.Context(), spec, nightDAG, ""); err != nil {
		t.Fatal(err)
	}
	id := b.enqueue(t, queue.Request{DAG: "night", Params: map[string]any{"day": "<b>2026</b>"}, Labels: map[string]string{"team": "data"}})
	b.fail(t, id, "step roll: exit 1")
	task := `INSERT INTO oarlock.tasks (run_id, step, item, alt, state, generation, attempt, epoch, seq, reason, grown, outputs, log_day, started_at, attempt_at, finished_at)
		VALUES ($1, $2, $3, 0, $4, 1, $5, 1, 1, $6, $7, $8, current_date, now() - interval '9 s', now() - interval '3 s', now() - interval '1 s')`
	b.exec(t, task, id, 0, "", "failed", 1, "1 item failed", `{"generation": 1, "items": [{"key": "a"}, {"key": "b"}, {"key": "c/d"}]}`, nil)
	b.exec(t, task, id, 0, "a", "succeeded", 1, "", nil, `{"rows": 12345678901234567890}`)
	b.exec(t, task, id, 0, "c/d", "failed", 1, "exit 3", nil, nil)
	b.exec(t, task, id, 1, "", "failed", 2, "exit 1", nil, nil)
	b.exec(t, task, id, 2, "", "upstream_failed", 0, "upstream failed: roll", nil, nil)
	b.exec(t, `INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, exit_code, reason, worker, log_day, started_at, finished_at)
		VALUES ($1, 1, '', 0, 1, 1, 'failed', 1, 'exit 1', 'w-1', current_date, now() - interval '9 s', now() - interval '8 s')`, id)
	b.exec(t, `INSERT INTO oarlock.events (run_id, kind, worker, epoch, message) VALUES ($1, 'lost', 'w-1', 1, 'worker w-1 was lost')`, id)
	chunk := `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, final, reason, lines)
		VALUES (current_date, $1, 1, '', 0, 2, $2, $3, now(), $4, $5, $6, $7)`
	b.exec(t, chunk, id, 0, 1, []byte("one\ntwo \x1b[32mgreen\x1b[0m\n"), false, nil, 2)
	b.exec(t, chunk, id, 1, 2, []byte("ERROR: <i>relation</i>\nhint\n"), false, nil, 4)
	b.exec(t, chunk, id, 2, 0, []byte{}, true, "failed", 4)
	return id
}

func TestRun_ShowsWhatWentWrong(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	b.night(t)
	page := b.page(t, "/runs/1", http.StatusOK)
	wantTexts(t, page, "each/c/d failed", "Also failed: roll", "oarlock logs 1 each/c/d", "Run the failed steps again", "day=<b>2026</b>", "by default full=false", "team=data",
		"worker w-1 was lost")
	if strings.Contains(page, "<b>2026</b>") {
		t.Error("a param is markup")
	}
	roll := b.page(t, "/runs/1?step=roll", http.StatusOK)
	wantTexts(t, roll, "attempt 2", "ERROR: <i>relation</i>", "lines 1–4 of 4")
	if !strings.Contains(roll, `<span class="a32">green</span>`) || strings.Contains(roll, "<i>relation") {
		t.Error("lines of the log are not shown as a terminal does")
	}
	first := b.page(t, "/runs/1?step=roll&attempt=1", http.StatusOK)
	wantTexts(t, first, "The task wrote nothing.")
}

func TestRun_HasViews(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	b.night(t)
	for path, texts := range map[string][]string{
		"/runs/1?view=graph":                        {"each", "2/3", "upstream_failed"},
		"/runs/1?view=tasks":                        {"each/a", "each/c/d", "exit 3", "failed 3", "succeeded 1"},
		"/runs/1?view=tasks&state=failed&only=each": {"each/c/d"},
		"/runs/1?view=tasks&find=C/":                {"each/c/d"},
		"/runs/1?view=tasks&find=none":              {"No task matches."},
		"/runs/1?view=events":                       {"asked for by", "attempt 1 failed: exit 1", "worker w-1 was lost", "failed in attempt 2: exit 1"},
		"/runs/1?view=params":                       {"day", "<b>2026</b>", "by default full=false"},
		"/runs/1?step=each":                         {"Items", "2 of 3 items", "c/d", "exit 3"},
		"/runs/1?step=each&item=a&tab=outputs":      {"rows", "12345678901234567890"},
		"/runs/1?step=roll&tab=attempts":            {"w-1", "exit 1"},
		"/runs/1?step=roll&tab=definition":          {`"id": "roll"`, `"limit": 2`},
		"/runs/1/steps/roll":                        {"roll", "ERROR"},
		"/runs/1/steps/each?item=c%2Fd":             {"each/c/d", "exit 3"},
		"/runs/1/steps/roll/log?line=3":             {"ERROR"},
		"/runs/1/steps/roll/log?q=relation":         {"1 line"},
		"/runs/1/steps/roll/log?q=none":             {"nothing found", "No line matches."},
		"/runs/1/steps/roll/log?q=%28":              {"This is no regular expression"},
		"/runs/1/steps/roll/log?stream=stderr":      {"ERROR"},
		"/runs/1?zoom=roll":                         {"Whole run"},
	} {
		wantTexts(t, b.page(t, path, http.StatusOK), texts...)
	}
	if page := b.page(t, "/runs/1/steps/roll/log?stream=stderr", http.StatusOK); strings.Contains(page, "green") {
		t.Error("standard output is among standard error")
	}
	for part, path := range map[string]string{
		`<mark>relation</mark>`: "/runs/1/steps/roll/log?q=relation", `class="err here"`: "/runs/1/steps/roll/log?line=3", `id="L3"`: "/runs/1/steps/roll/log",
	} {
		if !strings.Contains(b.page(t, path, http.StatusOK), part) {
			t.Errorf("%s has no %s", path, part)
		}
	}
}

func TestLogText_IsWhatWasWritten(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	b.night(t)
	w := b.get(t, "/runs/1/steps/roll/log.txt")
	if got := w.Body.String(); got != "one\ntwo \x1b[32mgreen\x1b[0m\nERROR: <i>relation</i>\nhint\n" {
		t.Errorf("%q", got)
	}
	if kind, how := w.Header().Get("Content-Type"), w.Header().Get("Content-Disposition"); kind != "text/plain; charset=utf-8" || how != `attachment; filename="run-1-roll.log"` {
		t.Errorf("%q, %q", kind, how)
	}
	if got := b.get(t, "/runs/1/steps/roll/log.txt?stream=stderr").Body.String(); got != "ERROR: <i>relation</i>\nhint\n" {
		t.Errorf("of standard error: %q", got)
	}
	if w := b.get(t, "/runs/1/steps/none/log.txt"); w.Code != http.StatusNotFound {
		t.Errorf("of no step: %d", w.Code)
	}
}

func TestRun_LatestLeadsToTheNewest(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	if page := b.page(t, "/runs/latest", http.StatusNotFound); !strings.Contains(page, "no run yet") {
		t.Error(plainText(page))
	}
	b.enqueue(t, queue.Request{})
	b.enqueue(t, queue.Request{})
	if to := b.get(t, "/runs/latest").Header().Get("Location"); to != "/runs/2" {
		t.Errorf("leads to %s", to)
	}
	wantTexts(t, b.page(t, "/runs/2", http.StatusOK), "No task has begun", "Watch the run end")
}

// A submitter sees its own runs only, and on them nothing that needs the right to read.
func TestRun_IsForThoseWhoMaySeeIt(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_submit", Options{})
	b.night(t)
	b.exec(t, "UPDATE oarlock.runs SET submitted_by = 'somebody' WHERE run_id = $1", b.enqueue(t, queue.Request{}))
	wantTexts(t, b.page(t, "/runs/1?step=roll", http.StatusOK), "roll", "ERROR", "attempt 2")
	wantTexts(t, b.page(t, "/runs/1?view=events", http.StatusOK), "failed in attempt 2")
	wantTexts(t, b.page(t, "/runs/1?view=graph", http.StatusOK), "night")
	for _, path := range []string{"/runs/2", "/runs/2?view=events", "/runs/2/steps/load", "/runs/2/steps/load/log", "/runs/2/steps/load/log.txt"} {
		if w := b.get(t, path); w.Code != http.StatusNotFound {
			t.Errorf("somebody else's %s: %d", path, w.Code)
		}
	}
}

// The database counts bands in stretches longer than the step took, up to the end of the run.
func TestBandRow_EndsWithItsItems(t *testing.T) {
	t.Parallel()
	at := func(s float64) time.Time { return time.Unix(0, int64(s*1e9)) }
	done := map[string]int{"succeeded": 3}
	sum := &queue.StepSummary{Task: queue.Task{Items: 3}, States: done, First: at(1.5), Last: at(2.5)}
	bands := []queue.Band{{From: at(1), To: at(2), States: map[string]int{"running": 3}}, {From: at(2), To: at(3), States: done}, {From: at(3), To: at(4), States: done}}
	row := bandRow(sum, bands)
	if len(row.Bars) != 2 || !row.Bars[0].From.Equal(at(1.5)) || !row.Bars[1].To.Equal(at(2.5)) {
		t.Errorf("%+v", row.Bars)
	}
	sum.Last = time.Time{}
	if row = bandRow(sum, bands); !row.Bars[1].To.Equal(at(4)) {
		t.Errorf("of items that go on: %+v", row.Bars)
	}
}
