package web

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oarlock-dev/oarlock/queue"
)

// An address holds the whole state of a page: it shows the same to another user, and after the browser goes back.
func TestRunQuery_IsItsAddress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"load", "load~1", "@exit", "a/b?c#d%20 e", "é&=", "x+y"})
		maybe := func(label string) string { return rapid.OneOf(rapid.Just(""), name).Draw(t, label) }
		q := runQuery{Kind: rapid.SampledFrom([]pageKind{runKind, stepKind, logKind}).Draw(t, "kind"), ID: queue.RunID(rapid.Int64Range(1, 1<<60).Draw(t, "id"))}
		q.Task = taskQuery{Step: name.Draw(t, "step"), Item: maybe("item"), Attempt: rapid.IntRange(0, 9).Draw(t, "attempt"), Tab: rapid.SampledFrom(panelTabs).Draw(t, "tab")}
		q.Task.Log = logQuery{Find: maybe("find"), Stream: rapid.SampledFrom([]string{"", "stdout", "stderr"}).Draw(t, "stream")}
		if line := rapid.Int64Range(0, 100).Draw(t, "line"); line > 0 {
			q.Task.Log.Line, q.Task.Log.To = line, line+rapid.Int64Range(0, 3).Draw(t, "more")
			q.Task.Log.From = max(1, line-contextLines)
		} else {
			q.Task.Log.From = rapid.Int64Range(0, 9).Draw(t, "from")
		}
		switch q.Kind {
		case runKind:
			q.View, q.Zoom, q.Only, q.Find, q.Before = rapid.SampledFrom(views).Draw(t, "view"), maybe("zoom"), maybe("only"), maybe("in"), maybe("before")
			q.Task.Chosen, q.Idle = true, rapid.Bool().Draw(t, "idle")
			q.States = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"failed", "running", "x y"}), 0, 2, rapid.ID).Draw(t, "states")
			if len(q.States) == 0 {
				q.States = nil
			}
			if rapid.Bool().Draw(t, "goes on") {
				q.After = queue.TaskKey{Step: rapid.IntRange(0, 9).Draw(t, "number"), Alt: 1, Item: maybe("after")}
			}
		case stepKind, logKind:
			q.Task.Chosen = true
			q.Task.Log.Whole = q.Kind == logKind
			if q.Kind == logKind {
				q.Task.Tab = panelTabs[0]
			}
		}
		if got := follow(t, q.address()); !reflect.DeepEqual(got, q) {
			t.Fatalf("%s leads to\n%+v, not\n%+v", q.address(), got, q)
		}
	})
}

// follow reads an address as the server does.
func follow(t *rapid.T, address string) (q runQuery) {
	t.Helper()
	mux := http.NewServeMux()
	handle := func(route string, read func(*http.Request) (runQuery, error)) {
		mux.HandleFunc("GET "+route, func(_ http.ResponseWriter, r *http.Request) {
			var err error
			if q, err = read(r); err != nil {
				t.Fatalf("%s: %v", address, err)
			}
		})
	}
	handle("/runs/{run}", parseRunQuery)
	handle("/runs/{run}/steps/{step}", func(r *http.Request) (runQuery, error) { return parseStepQuery(r, stepKind) })
	handle("/runs/{run}/steps/{step}/log", func(r *http.Request) (runQuery, error) { return parseStepQuery(r, logKind) })
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody))
	if q.ID == 0 {
		t.Fatalf("%s leads nowhere", address)
	}
	return q
}

func TestRunQuery_RefusesWhatHasNoMeaning(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	b.enqueue(t, queue.Request{})
	for _, path := range []string{
		"/runs/1?attempt=x", "/runs/1?attempt=0", "/runs/1?line=0", "/runs/1?line=5-3", "/runs/1?line=x", "/runs/1?from=-1", "/runs/1?view=tasks&after=1",
		"/runs/1?view=events&before=x",
	} {
		wantTexts(t, b.page(t, path, http.StatusBadRequest), "has no meaning")
	}
	for _, path := range []string{"/runs/0", "/runs/x", "/runs/2", "/runs/99999999999999999999", "/runs/1?step=none", "/runs/1/steps/none", "/runs/1/steps/none/log", "/runs/1/steps/load?item=x"} {
		if page := b.page(t, path, http.StatusNotFound); !strings.Contains(page, "does not exist") && !strings.Contains(page, "has no step") {
			t.Errorf("%s: %s", path, plainText(page))
		}
	}
}
