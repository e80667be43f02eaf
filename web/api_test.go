package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/queue"
)

// send posts JSON as a script does.
func (b *testBundle) send(t *testing.T, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	return b.get(t, path, func(r *http.Request) {
		r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(body))
		r.Header.Set("Content-Type", jsonType)
	})
}

// call requests a path of the JSON API; with a body it posts. It requires a status, and an answer that fits the OpenAPI document.
func (b *testBundle) call(t *testing.T, c *apiContract, path, body string, status int) map[string]any {
	t.Helper()
	path, method := apiRoot+path, http.MethodGet
	var w *httptest.ResponseRecorder
	if body == "" {
		w = b.get(t, path)
	} else {
		method, w = http.MethodPost, b.send(t, path, body)
	}
	text := w.Body.String()
	if w.Code != status {
		t.Fatalf("%s %s %s: %d, want %d: %s\nlog: %s", method, path, body, w.Code, status, text, b.logged)
	}
	c.check(t, method, path, w)
	var answer map[string]any
	if w.Header().Get("Content-Type") == jsonType {
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
	}
	return answer
}

// wantError wants an answer to be an error of a code.
func wantError(t *testing.T, answer map[string]any, code, says string) {
	t.Helper()
	e := object(answer["error"])
	if message, _ := e["message"].(string); e["code"] != code || !strings.Contains(message, says) {
		t.Errorf("%v, want %s: %s", answer, code, says)
	}
}

func items(answer map[string]any) []any {
	all, _ := answer["items"].([]any)
	return all
}

// tally sets the number of tasks of a run that is over.
func (b *testBundle) tally(t *testing.T, run queue.RunID, tasks int) {
	t.Helper()
	b.exec(t, "SET session_replication_role = replica") // the schema refuses changes of a run that is over
	b.exec(t, "UPDATE oarlock.runs SET counts = jsonb_build_object('total', $2::int) WHERE run_id = $1", run, tasks)
	b.exec(t, "RESET session_replication_role")
}

func TestAPI_ListsRuns(t *testing.T) {
	t.Parallel()
	b, c := setup(t, "", Options{}), loadContract(t)
	for i := range 3 {
		b.enqueue(t, queue.Request{Labels: map[string]string{"n": fmt.Sprint(i)}})
	}
	first := b.call(t, c, "/runs?limit=2", "", http.StatusOK)
	if len(items(first)) != 2 || first["next"] != "2" {
		t.Errorf("%v", first)
	}
	rest := b.call(t, c, "/runs?limit=2&before=2", "", http.StatusOK)
	if len(items(rest)) != 1 || rest["next"] != nil {
		t.Errorf("%v", rest)
	}
	if of := items(b.call(t, c, "/runs?label=n%3D1&state=queued&state=running", "", http.StatusOK)); len(of) != 1 || object(of[0])["id"] != 2.0 {
		t.Errorf("%v", of)
	}
	if none := b.call(t, c, "/runs?dag=none", "", http.StatusOK); none["items"] == nil || len(items(none)) != 0 {
		t.Errorf("%v", none)
	}
	for _, wrong := range []string{"limit=0", "limit=1001", "limit=x", "state=odd", "label=x", "since=x", "parent=x", "sate=failed"} {
		wantError(t, b.call(t, c, "/runs?"+wrong, "", http.StatusBadRequest), "usage", "")
	}
	wantError(t, b.call(t, c, "/runs?dag=%00", "", http.StatusUnprocessableEntity), "validation", "UTF8")
}

func TestAPI_ReadsARun(t *testing.T) {
	t.Parallel()
	b, c := setup(t, "", Options{}), loadContract(t)
	run := b.gallery(t, 300)
	at := fmt.Sprintf("/runs/%d", run)
	b.tally(t, run, 303)
	whole := b.call(t, c, at, "", http.StatusOK)
	if tasks, _ := whole["tasks"].([]any); len(tasks) != 300 || object(tasks[0])["step"] != "scan" || len(object(object(tasks[0])["outputs"])) != 400 {
		t.Errorf("%v", whole)
	}
	counted := []any{map[string]any{"step": "resize", "total": 300.0, "states": map[string]any{"failed": 3.0, "pending": 3.0, "running": 3.0, "succeeded": 291.0}}}
	if diff := cmp.Diff(counted, whole["item_counts"]); diff != "" {
		t.Errorf("item_counts: - want, + got\n%s", diff)
	}
	b.tally(t, run, 1001)
	large := b.call(t, c, at, "", http.StatusOK)
	if diff := cmp.Diff(counted, large["item_counts"]); diff != "" || large["tasks"] != nil || large["id"] != float64(run) {
		t.Errorf("%v", large)
	}
	seen, after := 0, ""
	for parts := 0; parts == 0 || after != ""; parts++ {
		part := b.call(t, c, at+"/tasks?step=resize&limit=100&after="+after, "", http.StatusOK)
		seen += len(items(part))
		after, _ = part["next"].(string)
		if parts > 3 {
			t.Fatal("tasks do not end")
		}
	}
	if seen != 298 {
		t.Errorf("%d tasks", seen)
	}
	if failed := items(b.call(t, c, at+"/tasks?state=failed&item=PART-1", "", http.StatusOK)); len(failed) != 2 || object(failed[0])["outputs"] != nil {
		t.Errorf("%v", failed)
	}
	if scan := b.call(t, c, at+"/steps/scan", "", http.StatusOK); len(object(scan["outputs"])) != 400 {
		t.Errorf("%v", scan)
	}
	if part := b.call(t, c, at+"/steps/resize?item=part-2", "", http.StatusOK); part["item"] != "part-2" {
		t.Errorf("%v", part)
	}
	story := b.call(t, c, at+"/events", "", http.StatusOK)
	next, _ := story["next"].(string)
	older := b.call(t, c, at+"/events?before="+next, "", http.StatusOK)
	if len(items(story)) == 0 || len(items(older)) == 0 || story["brief"] != true {
		t.Errorf("%v, then %v", story, older)
	}
	for path, code := range map[string]int{
		"/runs/99": 404, "/runs/x": 404, "/runs/99/tasks": 404, "/runs/99/events": 404, "/runs/99/stream": 404, at + "/steps/none": 404, at + "/steps/none/log": 404, at + "/steps/scan~4294967296/log": 404,
		at + "/tasks?after=x": 400, at + "/tasks?after=4294967296.0.": 400, at + "/events?before=x": 400, at + "/steps/scan/log?from=-1": 400, at + "/steps/scan/log?limit=257": 400,
	} {
		word := map[int]string{400: "usage", 404: "not_found"}[code]
		wantError(t, b.call(t, c, path, "", code), word, "")
	}
}

func TestAPI_ReadsLogs(t *testing.T) {
	t.Parallel()
	b, c := setup(t, "", Options{}), loadContract(t)
	at := fmt.Sprintf("/runs/%d/steps/scan/log", b.gallery(t, 5))
	b.call(t, c, at, "", http.StatusOK)
	seqs := func(query string) (all []int) {
		for line := range strings.Lines(b.get(t, apiRoot+at+query).Body.String()) {
			var piece struct{ Seq, Attempt int }
			if err := json.Unmarshal([]byte(line), &piece); err != nil || piece.Attempt != 21 {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, piece.Seq)
		}
		return all
	}
	if got := seqs("?from=7"); !slices.Equal(got, []int{7, 8, 9}) {
		t.Errorf("%v", got)
	}
	if got := seqs("?from=3&limit=2&attempt=21"); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("%v", got)
	}
	if got := seqs("?from=99"); got != nil {
		t.Errorf("%v", got)
	}
}

func TestAPI_ReadsTheCluster(t *testing.T) {
	t.Parallel()
	b, c := setup(t, "", Options{}), loadContract(t)
	b.fail(t, b.enqueue(t, queue.Request{}), "exit status 1")
	b.enqueue(t, queue.Request{})
	b.atWork(t, "w1", nil)
	b.exec(t, "SELECT oarlock.set_pool('heavy', slots => 5), oarlock.set_pool('crm', rate => 100, per => '1 minute', per_key => true), oarlock.close_pool('crm')")
	b.exec(t, "UPDATE oarlock.workers SET state = 'gone', ended_at = now() WHERE worker_id = $1", b.atWork(t, "w2", []string{"etl"}))
	for path, want := range map[string]int{"/dags": 1, "/dags?all=true": 1, "/queues": 1, "/pools": 2, "/workers": 1, "/workers?all=1": 2} {
		if got := items(b.call(t, c, path, "", http.StatusOK)); len(got) != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if stats, _ := b.call(t, c, "/stats?dag=report&since=2h", "", http.StatusOK)["dags"].([]any); len(stats) != 1 || object(stats[0])["failed"] != 1.0 {
		t.Errorf("%v", stats)
	}
	wantError(t, b.call(t, c, "/stats?dag=none", "", http.StatusNotFound), "not_found", "")
	wantError(t, b.call(t, c, "/workers?all=perhaps", "", http.StatusBadRequest), "usage", "")
	b.call(t, c, "/openapi.yaml", "", http.StatusOK)
}

func TestAPI_AsksForRuns(t *testing.T) {
	t.Parallel()
	b, c := setup(t, "oarlock_submit", Options{}), loadContract(t)
	const body = `{"dag": "report", "params": {"day": "x"}, "labels": {"team": "data"}, "run_key": "k", "priority": -3, "run_at": "+10m"}`
	made := b.call(t, c, "/runs", body, http.StatusCreated)
	if object(made["params"])["day"] != "x" || made["trigger"] != "manual" || made["state"] != "scheduled" || made["priority"] != -3.0 || object(made["labels"])["team"] != "data" {
		t.Errorf("%v", made)
	}
	again := `{"dag": "report", "run_key": "once"}`
	first, second := b.call(t, c, "/runs", again, http.StatusCreated), b.call(t, c, "/runs", again, http.StatusCreated)
	if first["id"] != second["id"] {
		t.Errorf("one key made the runs %v and %v", first["id"], second["id"])
	}
	if w := b.send(t, apiRoot+"/runs", again); w.Header().Get("Location") != fmt.Sprintf("%s/runs/%v", apiRoot, first["id"]) {
		t.Errorf("%v", w.Header())
	}
	for body, want := range map[string]struct {
		status int
		code   string
		says   string
	}{
		`{"dag": "none"}`: {404, "not_found", "none"},
		`{}`:              {422, "validation", "dag is missing"},
		`{"dag": "report", "params": {"dya": 1}}`:                          {422, "validation", "dya"},
		`{"dag": "report", "params": {"day": 1e999999}}`:                   {422, "validation", ""},
		`{"dag": "report", "params": {"day": "a\u0000"}}`:                  {422, "validation", ""},
		`{"dag": "report", "priority": 101}`:                               {422, "validation", "101"},
		`{"dag": "report", "priority": 9999999999}`:                        {400, "usage", "priority"},
		`{"dag": "report", "run_at": "soon"}`:                              {422, "validation", "soon"},
		`{"dag": "report", "params": []}`:                                  {400, "usage", "params"},
		`{"dag": "report", "parms": {}}`:                                   {400, "usage", "parms"},
		`{"dag": "report"} {}`:                                             {400, "usage", "follows the end"},
		`[]`:                                                               {400, "usage", "array"},
		`{"dag": `:                                                         {400, "usage", ""},
		`{"dag": "` + strings.Repeat("x", maxFormBytes) + `"}`:             {413, "usage", "1 MiB"},
		`{"dag": "report", "run_key": "once", "params": {"day": "other"}}`: {409, "conflict", "once"},
	} {
		wantError(t, b.call(t, c, "/runs", body, want.status), want.code, want.says)
	}
	b.exec(t, "SELECT oarlock.set_queue('default', max_queued => 1)")
	wantError(t, b.call(t, c, "/runs", `{"dag": "report"}`, http.StatusTooManyRequests), "conflict", "full")
}

func TestAPI_SteersRuns(t *testing.T) {
	t.Parallel()
	b, c := setup(t, "", Options{}), loadContract(t)
	for range 3 {
		b.enqueue(t, queue.Request{})
	}
	canceled := b.call(t, c, "/runs/1/cancel", `{"now": true}`, http.StatusOK)
	if canceled["verb"] != "cancel" || canceled["outcome"] == nil || canceled["state"] != "canceled" {
		t.Errorf("%v", canceled)
	}
	b.fail(t, 2, "exit status 1")
	if made := b.call(t, c, "/runs/2/retry", `{"params": {"day": "y"}}`, http.StatusOK); made["retry_of"] != 2.0 || made["run"] != 4.0 || made["id"] != nil {
		t.Errorf("%v", made)
	}
	b.call(t, c, "/runs/2/retry", `{"from": "load", "within": "0s"}`, http.StatusAccepted)
	b.ask(t, 3)
	if tasks, _ := b.call(t, c, "/runs/3", "", http.StatusOK)["tasks"].([]any); len(tasks) != 2 || object(object(tasks[1])["approval"])["prompt"] != askedPrompt {
		t.Errorf("%v", tasks)
	}
	if waits := items(b.call(t, c, "/runs/3/tasks?state=waiting", "", http.StatusOK)); len(waits) != 1 || object(waits[0])["approval"] == nil {
		t.Errorf("%v", waits)
	}
	for path, body := range map[string]string{
		"pause": `{"step": "confirm", "within": "0s"}`, "resume": `{"within": "0s"}`, "mark": `{"step": "load", "as": "succeeded", "values": {"rows": 7}, "within": "0s"}`,
		"approve": `{"step": "confirm", "inputs": {"ticket": "T1"}, "comment": "fine", "within": "1ms"}`, "reject": `{"step": "confirm", "comment": "no", "within": "0s"}`,
	} {
		if asked := b.call(t, c, "/runs/3/"+path, body, http.StatusAccepted); asked["verb"] != path || asked["outcome"] != nil {
			t.Errorf("%v", asked)
		}
	}
	for _, part := range []string{`mark load {"as": "succeeded", "outputs": {"rows": 7}}`, `"ticket": "T1"`, `"comment": "fine"`, `"no"`, "pause confirm", "resume {}", `cancel {"now": true}`, `retry load`} {
		if all := b.controls(t); !strings.Contains(all, part) {
			t.Errorf("there is no %s: %s", part, all)
		}
	}
	for path, want := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"/runs/3/retry":   {`{}`, 409, "conflict"},
		"/runs/9/cancel":  {`{}`, 404, "not_found"},
		"/runs/3/approve": {`{}`, 422, "validation"},
		"/runs/3/mark":    {`{"step": "load", "as": "running"}`, 422, "validation"},
		"/runs/3/pause":   {`{"item": "a"}`, 422, "validation"},
		"/runs/3/cancel":  {`{"within": "1h"}`, 422, "validation"},
		"/runs/3/resume":  {`{"now": true}`, 400, "usage"},
		"/runs/3/reject":  {`{"step": "none"}`, 404, "not_found"},
		"/runs/2/retry":   {`{"latest": true, "all": true}`, 422, "validation"},
		"/runs/1/retry":   {`{"from": "load", "step": "load"}`, 422, "validation"},
	} {
		wantError(t, b.call(t, c, path, want.body, want.status), want.code, "")
	}
}

func TestAPI_ActsForItsOwnSiteOnly(t *testing.T) {
	t.Parallel()
	b, c := setup(t, "", Options{}), loadContract(t)
	post := func(change func(*http.Request)) *httptest.ResponseRecorder {
		return b.get(t, apiRoot+"/runs", func(r *http.Request) {
			r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(`{"dag": "report"}`))
			r.Header.Set("Content-Type", jsonType+"; charset=utf-8")
			change(r)
		})
	}
	for status, change := range map[int]func(*http.Request){
		http.StatusUnsupportedMediaType: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		http.StatusForbidden:            func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		http.StatusCreated:              func(*http.Request) {},
	} {
		w := post(change)
		if w.Code != status {
			t.Errorf("%d, want %d: %s", w.Code, status, w.Body)
		}
		c.check(t, http.MethodPost, apiRoot+"/runs", w)
	}
	runs := 0
	if err := b.conn.QueryRow(t.Context(), "SELECT count(*) FROM oarlock.inbox").Scan(&runs); err != nil || runs != 1 {
		t.Errorf("%d runs, %v", runs, err)
	}
	only := setup(t, "", Options{ReadOnly: true})
	wantError(t, only.call(t, c, "/runs", `{"dag": "report"}`, http.StatusForbidden), "permission_denied", "only reads")
	wantError(t, only.call(t, c, "/runs/1/cancel", `{}`, http.StatusForbidden), "permission_denied", "only reads")
}

func TestAPI_AnswersInItsOwnWords(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_submit", Options{Base: "/x"})
	for target, want := range map[string]struct {
		method string
		status int
		code   string
		allow  string
	}{
		"/x/api/v1/none":           {"GET", 404, "not_found", ""},
		"/x/api/v2/runs":           {"POST", 404, "not_found", ""},
		"/x/api/v1/queues":         {"POST", 405, "usage", "GET"},
		"/x/api/v1/runs/1/cancel":  {"GET", 405, "usage", "POST"},
		"/x/api/v1/runs/1":         {"DELETE", 405, "usage", "GET, HEAD, POST"},
		"/x/api/v1/workers":        {"GET", 403, "permission_denied", ""},
		"/x/api/v1/runs?state=odd": {"GET", 400, "usage", ""},
	} {
		w := b.get(t, target, func(r *http.Request) { r.Method = want.method })
		var answer map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != want.status || w.Header().Get("Allow") != want.allow {
			t.Errorf("%s: %d %v %s", target, w.Code, w.Header(), w.Body)
		}
		wantError(t, answer, want.code, "")
	}
}

func TestAPIErrors_HaveTheCodesOfCommands(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct {
		err    error
		status int
	}{
		"outcome_unknown": {fmt.Errorf("enqueue: %w", queue.ErrUnknown), http.StatusServiceUnavailable},
		"unreachable":     {fmt.Errorf("list runs: %w", context.DeadlineExceeded), http.StatusServiceUnavailable},
		"schema_version":  {&queue.Error{Code: "42P01", Message: "relation"}, http.StatusServiceUnavailable},
		"error":           {errors.New("odd"), http.StatusInternalServerError},
	} {
		if status, e := apiErrorOf(problemOf(want.err), want.err); status != want.status || e.Code != code || e.Hint == nil || strings.Contains(e.Message+*e.Hint, "page") {
			t.Errorf("%s: %d %+v", code, status, e)
		}
	}
}

func TestAPI_IsBoundedInAll(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	run := b.gallery(t, 2_000)
	b.tally(t, run, 2003)
	few := b.enqueue(t, queue.Request{})
	sent := b.count(t)
	at := fmt.Sprintf("/runs/%d", run)
	for path, most := range map[string]int{
		"/runs?limit=1000": 1, at: 2, fmt.Sprintf("/runs/%d", few): 2, at + "/tasks?limit=1000": 1, at + "/events": 4, fmt.Sprintf("/runs/%d/events", few): 4,
		at + "/steps/scan": 1, at + "/steps/scan/log": 4, "/dags": 1, "/queues": 1, "/pools": 1, "/workers": 1, "/stats": 2, "/stats?dag=gallery": 3,
	} {
		b.get(t, apiRoot+path) // the version of the DAG is read once
		sent.Take()
		w := b.get(t, apiRoot+path)
		if asked := sent.Take(); w.Code != http.StatusOK || len(asked) > most || len(asked) == 0 {
			t.Errorf("%s: %d costs %d statements, at most %d: %s", path, w.Code, len(asked), most, strings.Join(asked, ", "))
		}
	}
}

func TestAPI_StreamsARun(t *testing.T) {
	t.Parallel()
	b, c := setup(t, "", Options{}), loadContract(t)
	b.enqueue(t, queue.Request{})
	at := apiRoot + "/runs/1/stream"
	server := httptest.NewServer(b.handler)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	events := bufio.NewReader(answer.Body)
	next := func() (name string, data map[string]any) {
		for {
			line, err := events.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if text, ok := strings.CutPrefix(line, "event: "); ok {
				name = strings.TrimSpace(text)
			}
			if text, ok := strings.CutPrefix(line, "data: "); ok && name != "" {
				_ = json.Unmarshal([]byte(text), &data)
				return name, data
			}
		}
	}
	if name, run := next(); name != "run" || run["state"] != "queued" || run["id"] != 1.0 {
		t.Errorf("%s %v", name, run)
	}
	b.call(t, c, "/runs/1/cancel", `{}`, http.StatusOK)
	if name, run := next(); name != "run" || run["state"] != "canceled" {
		t.Errorf("%s %v", name, run)
	}
	if name, _ := next(); name != "over" {
		t.Errorf("%s", name)
	}
	if rest, err := io.ReadAll(events); err != nil || strings.Contains(string(rest), "event") {
		t.Errorf("%q, %v", rest, err)
	}
	ended := b.get(t, at)
	c.check(t, http.MethodGet, at, ended)
	if body := ended.Body.String(); !strings.Contains(body, "event: run\ndata: {\"id\":1,") || !strings.HasSuffix(body, event("over", "")) {
		t.Errorf("%s", body)
	}
}
