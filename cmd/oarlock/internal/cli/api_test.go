package cli

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web"
)

// apiState is a run of etl with a task that failed and what that wrote, a run that waits, and a worker.
const apiState = `
UPDATE oarlock.runs SET state = 'failed', reason = 'load failed', started_at = now() - interval '10 s', finished_at = now(), queue_deadline = NULL,
       counts = '{"total": 1, "open": 0, "failed": 1}' WHERE run_id = 1;
INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, attempt_at, finished_at, log_day, reason, outputs)
SELECT 1, 0, 'failed', 1, 1, 1, 1, now() - interval '9 s', now() - interval '9 s', now(), current_date, E'exit status 1 \u009b31m', '{"rows": 12345678901234567890, "html": "<b>&"}';
INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, lines, final, reason)
VALUES (current_date, 1, 0, '', 0, 1, 0, 1, now(), convert_to(E'one <b>\ntwo', 'UTF8'), 2, false, ''),
       (current_date, 1, 0, '', 0, 1, 1, 2, now(), '\xff00', 3, false, ''),
       (current_date, 1, 0, '', 0, 1, 2, 0, now(), '', 3, true, 'failed');
INSERT INTO oarlock.events (run_id, kind, step, item, alt, worker) VALUES (1, 'lost', NULL, '', 0, 'w1');
INSERT INTO oarlock.controls (run_id, verb, by) VALUES (1, 'pause', 'ana');
INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel)
VALUES (gen_random_uuid(), 'w1', 'host<b>', 'b', 17, 'v1', '{"zone": "eu"}', '{etl}', 8, 'cgroup', 30000, 'c');
`

// changing are values that change between two looks.
var changing = regexp.MustCompile(`"(beat_age_ms|oldest_ms)":\d+`)

// TestAPI_HasTheObjectsOfCommands compares what commands print with what the interface for programs answers, byte by byte.
func TestAPI_HasTheObjectsOfCommands(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	db := pgtest.New(t)
	register(t, db.URL)
	store, err := queue.Open(t.Context(), queue.Config{URL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	pages, err := web.Handler(store, web.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	e := testEnv()
	e.Lookup = func(name string) (string, bool) {
		if name == "DATABASE_URL" {
			return db.URL, true
		}
		return "", false
	}
	for range 2 {
		params := map[string]any{"day": "2026-11-20", "extra": json.RawMessage(`{"n": 1e400, "s": "<&>\u202e"}`)}
		if _, err := store.Enqueue(t.Context(), queue.Request{DAG: "etl", Params: params, Labels: map[string]string{"team": "data & ml"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Conn(t).Exec(t.Context(), apiState); err != nil {
		t.Fatal(err)
	}
	for command, path := range map[string]string{
		"list":                     "/runs",
		"list --state failed":      "/runs?state=failed",
		"status 1":                 "/runs/1",
		"status 2":                 "/runs/2",
		"events 1":                 "/runs/1/events",
		"logs 1 load":              "/runs/1/steps/load/log",
		"dag list":                 "/dags",
		"queues":                   "/queues",
		"workers":                  "/workers",
		"enqueue etl -p day=today": `/runs {"dag": "etl", "params": {"day": "today"}}`,
		"cancel 1":                 `/runs/1/cancel {}`,
		"retry 1 -p day=tomorrow":  `/runs/1/retry {"params": {"day": "tomorrow"}}`,
	} {
		got := invoke(t, e, append(strings.Fields(command), "-o", "jsonl")...)
		printed, answered := objectLines(sayOf(got)), askAPI(t, pages, path)
		if strings.HasPrefix(command, "events") {
			slices.Reverse(answered) // pages and programs begin with the newest
		}
		if strings.Contains(path, "{") {
			printed, answered = withoutOwn(printed), withoutOwn(answered)
		}
		if diff := cmp.Diff(printed, answered); diff != "" || len(printed) == 0 {
			t.Errorf("%s: - printed, + answered by %s\n%s", command, path, diff)
		}
	}
	stats := invoke(t, e, "stats", "--since", "2026-01-01T00:00:00Z", "-o", "json")
	var printed any
	var answered any
	err = json.Unmarshal([]byte(stats.stdout), &printed)
	if err == nil {
		err = json.Unmarshal([]byte(strings.Join(askAPI(t, pages, "/stats?since=2026-01-01T00:00:00Z"), "")), &answered)
	}
	if diff := cmp.Diff(printed, answered); diff != "" || err != nil {
		t.Errorf("stats: - printed, + answered\n%s%v", diff, err)
	}
}

// sayOf is what a command prints, and of one that failed why.
func sayOf(got invocation) string {
	if got.exit == exitOK {
		return got.stdout
	}
	return got.stderr
}

// askAPI answers with the objects of a path, in lines; a body behind the path is posted.
func askAPI(t *testing.T, pages http.Handler, path string) []string {
	t.Helper()
	path, body, posts := strings.Cut(path, " ")
	method := http.MethodGet
	if posts {
		method = http.MethodPost
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "/api/v1"+path, strings.NewReader(body))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || list.Items == nil {
		return objectLines(w.Body.String())
	}
	var lines []string
	for _, item := range list.Items {
		lines = append(lines, string(item))
	}
	return objectLines(strings.Join(lines, "\n"))
}

func objectLines(text string) []string {
	return strings.Split(strings.TrimSpace(changing.ReplaceAllString(text, `"$1":0`)), "\n")
}

// own are what two requests, or two runs, never have alike.
var own = regexp.MustCompile(`"(id|uid|run|run_at|logical_at|created_at|at|decided_at)":("[^"]*"|\d+)`)

func withoutOwn(lines []string) []string {
	var all []string
	for _, line := range lines {
		all = append(all, own.ReplaceAllString(line, `"$1":0`))
	}
	return all
}
