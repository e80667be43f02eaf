package web

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestFilter_IsTheSameInAllItsForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		filter  runFilter
		command string
	}{
		"":                        {runFilter{}, "oarlock list"},
		"dag:order-paid since:2h": {runFilter{DAG: "order-paid", Since: "2h"}, "oarlock list --dag order-paid --since 2h"},
		`label:a=b label:"team=data and \"ml\"" queue:etl parent:41`: {
			runFilter{Labels: []string{"a=b", `team=data and "ml"`}, Queue: "etl", Parent: "41"},
			`oarlock list --queue etl --label a=b --label 'team=data and "ml"' --parent 41`,
		},
		`label:x=it's`: {runFilter{Labels: []string{"x=it's"}}, `oarlock list --label 'x=it'\''s'`},
	} {
		var f runFilter
		free, err := f.read(text)
		if err != nil || free != "" || !cmp.Equal(f, want.filter) || f.command() != want.command {
			t.Errorf("%q: %+v, %q, %v, %s", text, f, free, err, f.command())
		}
		var again runFilter
		if _, err := again.read(f.box()); err != nil || !cmp.Equal(again, f) {
			t.Errorf("%q read again: %+v, %v", f.box(), again, err)
		}
		at, err := url.Parse(f.path())
		if err != nil {
			t.Fatal(err)
		}
		if linked := filterOf(at.Query()); at.Path != "/runs" || !slices.Equal(linked.parts(), f.parts()) {
			t.Errorf("%s: %+v", f.path(), linked)
		}
	}
}

func TestFilter_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	for path, want := range map[string]string{
		"/runs?q=params.order%3D1":     `runs cannot be filtered by params: "params.order=1"`,
		"/runs?q=color%3Ared":          `there is no filter "color"`,
		"/runs?q=one+two":              `"one" and "two" are two`,
		"/runs?state=none":             `a run is never "none"`,
		"/runs?label=team":             `a label is NAME=VALUE, not "team"`,
		"/runs?since=yesterday":        `since: "yesterday" is neither a duration nor a time`,
		"/runs?parent=x":               `parent: a run is a number, not "x"`,
		"/runs?before=-1":              `before: a run is a number, not "-1"`,
		"/runs?since=<script>alert(1)": `since: "<script>alert(1)"`,
	} {
		wantTexts(t, b.page(t, path, http.StatusBadRequest), want)
	}
}

func TestFilter_ReadsTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2h": now.Add(-2 * time.Hour), "1d12h": now.Add(-36 * time.Hour), "2026-11-20T03:00:00Z": time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC),
		"2026-11-20": time.Date(2026, 11, 20, 0, 0, 0, 0, time.Local), "2026-11-20 06:30": time.Date(2026, 11, 20, 6, 30, 0, 0, time.Local),
	} {
		if got, err := sinceTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestWords_LeadToPages(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	b.enqueue(t, queue.Request{})
	for path, want := range map[string]string{
		"/":                          "/runs",
		"/jump?q=41":                 "/runs/41",
		"/jump?q=%2341":              "/runs/41",
		"/jump?q=+41+":               "/runs/41",
		"/jump?q=":                   "/runs",
		"/jump?q=report":             "/runs?dag=report",
		"/jump?q=team%3Ddata":        "/runs?label=team%3Ddata",
		"/jump?q=dag%3Ax+since%3A2h": "/runs?dag=x&since=2h",
		"/jump?q=//example.org":      "/runs?dag=%2F%2Fexample.org",
		"/runs?q=41":                 "/runs/41",
		"/runs?q=report&state=failed&state=running": "/runs?dag=report&state=failed&state=running",
		"/theme?to=dark&back=/approvals":            "/approvals",
		"/theme?to=dark&back=/runs?dag%3Da%26x%3Db": "/runs?dag=a&x=b",
		"/theme?to=dark&back=//example.org":         "/runs",
		"/theme?to=dark&back=/%5Cexample.org":       "/runs",
		"/theme?to=dark&back=/..//example.org":      "/runs",
		"/theme?to=dark&back=https://example.org/":  "/runs",
		"/theme?to=dark&back=javascript:alert(1)":   "/runs",
		"/theme?to=dark&back=/%0d%0aSet-Cookie:x":   "/runs",
		"/theme?to=dark&back=":                      "/runs",
	} {
		w := b.get(t, path)
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want {
			t.Errorf("%s leads to %q with %d, want %q", path, got, w.Code, want)
		}
	}
}

func TestTheme_StaysChosen(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{Base: "/x"})
	set := b.get(t, "/x/theme?to=dark&back=/runs").Result().Cookies()
	if len(set) != 1 || set[0].Path != "/x/" || !set[0].HttpOnly || set[0].SameSite != http.SameSiteLaxMode {
		t.Fatalf("%+v", set)
	}
	for value, want := range map[string]string{"dark": ` data-theme="dark"`, "light": ` data-theme="light"`, "auto": "<html lang=\"en\">", `"><script>`: "<html lang=\"en\">"} {
		page := b.get(t, "/x/runs", func(r *http.Request) { r.Header.Set("Cookie", set[0].Name+"="+value) }).Body.String()
		wantMarkup(t, page, want)
	}
	if w := b.get(t, "/x/theme?to=pink"); w.Code != http.StatusBadRequest || len(w.Result().Cookies()) > 0 {
		t.Errorf("a theme that there is not: %d", w.Code)
	}
}
