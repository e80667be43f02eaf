package cli

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web"
)

// changing matches values that may change between two looks.
var changing = regexp.MustCompile(`"(beat_age_ms|oldest_ms)":\d+`)

// TestAPI_HasTheObjectsOfCommands compares, byte by byte, the objects that commands print with the objects of the JSON API.
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
	makeRuns(t, e, db, store)
	for command, path := range map[string]string{
		"list":                     "/runs",
		"list --state failed":      "/runs?state=failed",
		"status 1":                 "/runs/1",
		"status 2":                 "/runs/2",
		"status 3":                 "/runs/3",
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
			slices.Reverse(answered) // pages and the API begin with the newest
		}
		if strings.Contains(path, "{") {
			printed, answered = withoutOwn(printed), withoutOwn(answered)
		}
		if diff := cmp.Diff(printed, answered); diff != "" || len(printed) == 0 {
			t.Errorf("%s: - printed, + answered by %s\n%s", command, path, diff)
		}
	}
	var status struct{ Tasks []json.RawMessage }
	if many, want := invoke(t, e, "status", "3", "-o", "jsonl").stdout, `"item_counts":[{"step":"each","total":3,"states":{"failed":1,"pending":1,"succeeded":1}}]`; !strings.Contains(many, want) {
		t.Errorf("%s in %s", want, many)
	}
	if err := json.Unmarshal([]byte(askAPI(t, pages, "/runs/1")[0]), &status); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(status.Tasks[0]), askAPI(t, pages, "/runs/1/steps/load")[0]); diff != "" {
		t.Errorf("a task: - in its run, + alone\n%s", diff)
	}
	statsAgree(t, e, pages)
}

// makeRuns makes a run that failed, a run that waits, and a run with items.
func makeRuns(t *testing.T, e Env, db *pgtest.DB, store *queue.Store) {
	t.Helper()
	for range 2 {
		params := map[string]any{"day": "2026-11-20", "extra": json.RawMessage(`{"n": 1e400, "s": "<&>\u202e"}`)}
		if _, err := store.Enqueue(t.Context(), queue.Request{DAG: "etl", Params: params, Labels: map[string]string{"team": "data & ml"}}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "many.yaml")
	writeFile(t, file, "name: many\nsteps: [{id: each, foreach: {items: [a, b, c]}, action: noop}]\n")
	for _, line := range []string{"dag apply " + file, "enqueue many"} {
		if got := invoke(t, e, strings.Fields(line)...); got.exit != exitOK {
			t.Fatal(got.stderr)
		}
	}
	execFile(t, db, "ended.sql")
	execFile(t, db, "many_items.sql")
}

func statsAgree(t *testing.T, e Env, pages http.Handler) {
	t.Helper()
	stats := invoke(t, e, "stats", "--since", "2026-01-01T00:00:00Z", "-o", "json")
	var printed any
	var answered any
	err := json.Unmarshal([]byte(stats.stdout), &printed)
	if err == nil {
		err = json.Unmarshal([]byte(strings.Join(askAPI(t, pages, "/stats?since=2026-01-01T00:00:00Z"), "")), &answered)
	}
	if diff := cmp.Diff(printed, answered); diff != "" || err != nil {
		t.Errorf("stats: - printed, + answered\n%s%v", diff, err)
	}
}

// sayOf returns the output of a command: its answer, or the error if the command failed.
func sayOf(got invocation) string {
	if got.exit == exitOK {
		return got.stdout
	}
	return got.stderr
}

// askAPI requests a path and returns the objects of the answer, one a line. A path with a body behind it is posted.
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

// own matches values that differ between any two requests and any two runs.
var own = regexp.MustCompile(`"(id|uid|run|run_at|logical_at|created_at|at|decided_at)":("[^"]*"|\d+)`)

func withoutOwn(lines []string) []string {
	var all []string
	for _, line := range lines {
		all = append(all, own.ReplaceAllString(line, `"$1":0`))
	}
	return all
}
