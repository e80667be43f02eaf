package web

import (
	"crypto/sha256"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

const formDAG = `
name: form
allow: {queue: true}
params:
  - {name: day, type: string, required: true, pattern: '^\d{4}-\d{2}$', min_length: 7, description: "<b>which</b> month"}
  - {name: limit, type: integer, minimum: 1, maximum: 10, default: 3}
  - {name: ratio, type: number}
  - {name: full, type: boolean, default: true}
  - {name: kind, type: string, enum: [big, "<small>"]}
  - {name: more, type: json}
  - {name: note, type: string}
  - {name: once, type: string}
steps: [{id: load, run: "true"}]
`

// putForm registers the DAG with params of each type.
func (b *testBundle) putForm(t *testing.T) {
	t.Helper()
	(&testBundle{store: openStore(t, b.db.URL)}).put(t, formDAG)
}

// login is the name of the server's login.
func (b *testBundle) login(t *testing.T) string {
	t.Helper()
	rights, err := b.store.Rights(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pgx.Identifier{rights.Login}.Sanitize()
}

func TestEnqueue_HasAFieldForEachType(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	b.putForm(t)
	wantMarkup(t, b.page(t, "/runs?dag=form", http.StatusOK), `href="/dags/form/enqueue"`)
	wantMarkup(t, b.page(t, "/runs", http.StatusOK), `<a class="btn" href="/dags">Enqueue…</a>`)
	wantMarkup(t, b.page(t, "/dags/form", http.StatusOK), `<a class="btn" href="/dags/form/enqueue">Enqueue…</a>`)
	page := b.page(t, "/dags/form/enqueue", http.StatusOK)
	wantMarkup(t, page,
		`name="param.day" type="text" value="" placeholder="" autocomplete="off" pattern="\d{4}-\d{2}" minlength="7" required aria-describedby="param-day-help"`,
		`name="param.limit" type="number" value="" placeholder="3" autocomplete="off" min="1" max="10" step="1"`, `name="param.ratio" type="number" value="" placeholder="" autocomplete="off" step="any"`,
		`<option value="">default: true</option><option value="true">true</option>`, `<option value="&lt;small&gt;">`, `<textarea id="param-more"`)
	wantTexts(t, page, "day string, required", "<b>which</b> month", "oarlock enqueue form", "Run key", "Queue", "Labels")
	if strings.Contains(page, "aria-invalid") {
		t.Error("an empty form says what is wrong with it")
	}
}

func TestEnqueue_MakesARun(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_submit", Options{})
	b.putForm(t)
	b.exec(t, "GRANT oarlock_read TO "+b.login(t))
	b.exec(t, "SELECT oarlock.set_queue('etl')")
	full := []string{
		onceField, "n1", "param.day", "2026-11", "param.limit", "7", "param.ratio", "0.5", "param.full", "false", "param.kind", "<small>", "param.more", `{"a": [1]}`,
		"param.note", hostileNote + "\r\nsecond", "param.once", "x", "run.queue", "etl", "run.priority", "-5", "run.labels", "team=a b\r\nx=1", "run.at", "+1h",
	}
	first := b.post(t, "/dags/form/enqueue", full...)
	run := first.Header().Get("Location")
	if again := b.post(t, "/dags/form/enqueue", full...).Header().Get("Location"); again != run || run == "" {
		t.Errorf("a form sent twice led to %q and %q: %s", run, again, plainText(first.Body.String()))
	}
	b.server.acted = kept[[sha256.Size]byte, *onceDone]{} // as after a restart of the server
	if again := b.post(t, "/dags/form/enqueue", full...).Header().Get("Location"); again != run {
		t.Errorf("a form whose answer was lost led to %q, not %q", again, run)
	}
	all, err := b.store.List(t.Context(), queue.Filter{Limit: 10})
	if err != nil || len(all.Runs) != 1 {
		t.Fatalf("%d runs, %v", len(all.Runs), err)
	}
	r := all.Runs[0]
	if !regexp.MustCompile(`^web-[a-z2-7]{26}$`).MatchString(r.Key) {
		t.Errorf("the run key is %q", r.Key)
	}
	got := []any{string(r.Params), r.Trigger, r.Queue, r.Priority, r.Labels, r.State}
	want := []any{
		`{"day": "2026-11", "full": false, "kind": "<small>", "more": {"a": [1]}, "note": "'><script>alert(1)</script> # / ? % ` + "\u202e" + ` 🦀\nsecond", "once": "x", "limit": 7, "ratio": 0.5}`,
		"manual", "etl", -5,
		map[string]string{"team": "a b", "x": "1"},
		"scheduled",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEnqueue_MakesARunOfEachChange(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	b.putForm(t)
	seen := map[string]bool{}
	for _, change := range [][]string{
		nil, {"param.limit", "7"}, {"run.priority", "5"}, {"run.labels", "team=a"}, {"run.at", "+1h"}, {"run.at", "+2h"},
	} {
		w := b.post(t, "/dags/form/enqueue", append([]string{onceField, "n1", "param.day", "2026-11"}, change...)...)
		run := w.Header().Get("Location")
		if w.Code != http.StatusSeeOther || seen[run] {
			t.Errorf("%q led to %q: %d %s", change, run, w.Code, plainText(w.Body.String()))
		}
		seen[run] = true
	}
	for range 2 {
		w := b.post(t, "/dags/form/enqueue", onceField, "n2", "param.day", "2026-11", "run.key", "mine")
		if want := runPath(queue.RunID(len(seen) + 1)); w.Header().Get("Location") != want {
			t.Errorf("a key of the reader's own led to %q, not %s", w.Header().Get("Location"), want)
		}
	}
}

func TestEnqueue_SaysAtTheFieldWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	b.putForm(t)
	for name, c := range map[string]struct{ value, says string }{
		"param.day":    {hostileNote, "must match"},
		"param.limit":  {"11", "must be 10 or less, not 11"},
		"param.ratio":  {"much", "must be a number"},
		"param.full":   {"maybe", "must be true or false"},
		"param.kind":   {"medium", "must be"},
		"param.more":   {"{", "this is not JSON"},
		"run.at":       {"soon", "must be a time"},
		"run.priority": {"high", "must be a whole number"},
		"run.labels":   {"<b>", "is not NAME=VALUE"},
	} {
		pairs := []string{name, c.value}
		if name != "param.day" {
			pairs = append(pairs, "param.day", "2026-11")
		}
		w := b.post(t, "/dags/form/enqueue", append(pairs, onceField, name)...)
		page := w.Body.String()
		if w.Code != http.StatusUnprocessableEntity || strings.Contains(page, "<script>alert") || strings.Contains(page, "<b>") {
			t.Errorf("%s: %d", name, w.Code)
		}
		wantTexts(t, page, c.says)
		id := strings.ReplaceAll(name, ".", "-")
		wantMarkup(t, page, `aria-invalid="true" aria-describedby="`+id+`-problem`, `id="`+id+`-problem"`)
		if shown := html.UnescapeString(page); !strings.Contains(shown, `value="`+c.value+`"`) && !strings.Contains(shown, "\n"+c.value+"</textarea>") {
			t.Errorf("%s: %s is not kept:\n%s", name, c.value, page)
		}
	}
	w := b.post(t, "/dags/form/enqueue", "param.day", "2026-11", "param.dya", "x")
	wantTexts(t, w.Body.String(), "Param dya: unknown.")
	w = b.post(t, "/dags/form/enqueue", "param.day", "2026-11", "run.priority", "500")
	wantTexts(t, w.Body.String(), "not from -100 to 100")
	if runs, err := b.store.List(t.Context(), queue.Filter{Limit: 1}); err != nil || len(runs.Runs) > 0 {
		t.Errorf("a wrong form made a run: %v", err)
	}
}

func TestEnqueue_BeginsWithARunOrAnAddress(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	b.putForm(t)
	b.enqueue(t, queue.Request{DAG: "form", Params: map[string]any{"day": "2026-10", "limit": 7, "more": []int{1}, "note": "it's\n\"so\""}})
	page := b.page(t, "/dags/form/enqueue?from=1&limit=8&run.key=k'1", http.StatusOK)
	wantMarkup(t, page, `value="2026-10"`, `value="8"`, "<textarea id=\"param-note\"", "\nit&#39;s\n&#34;so&#34;</textarea>")
	wantTexts(t, page,
		`oarlock enqueue form -p day=2026-10 -p limit=8 -p 'more=[1]' -p $'note=it\'s\n"so"' --key 'k'\''1'`,
		`SELECT oarlock.enqueue('form', '{"day":"2026-10","limit":8,"more":[1],"note":"it''s\n\"so\""}', run_key => 'k''1');`)
	statement := `SELECT oarlock.enqueue('form', '{"day":"2026-10","limit":8,"more":[1],"note":"it''s\n\"so\""}', run_key => 'k''1');`
	b.exec(t, statement)
	for path, status := range map[string]int{
		"?from=9": http.StatusNotFound, "?from=x": http.StatusBadRequest, "?day=" + url.QueryEscape(hostileNote): http.StatusOK, "?param.dya=1": http.StatusOK,
	} {
		b.page(t, "/dags/form/enqueue"+path, status)
	}
	b.page(t, "/dags/report/enqueue?from=1", http.StatusBadRequest)
	b.page(t, "/dags/nowhere/enqueue", http.StatusNotFound)
}

func TestEnqueue_TakesLinesWhereTheDefinitionIsHidden(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_submit", Options{})
	b.putForm(t)
	wantMarkup(t, b.page(t, "/dags/form/enqueue?day="+url.QueryEscape(hostileNote), http.StatusOK), `<textarea id="params"`, "day=&#39;&gt;&lt;script&gt;")
	w := b.post(t, "/dags/form/enqueue", "params", "day=2026-11\r\nmore=[1]\r\nlimit")
	wantTexts(t, w.Body.String(), `"limit" is not NAME=VALUE`)
	w = b.post(t, "/dags/form/enqueue", "params", "day=2026-11\r\nlimit=70")
	wantTexts(t, w.Body.String(), "limit", "day=2026-11")
	if w.Code != http.StatusUnprocessableEntity {
		t.Errorf("%d", w.Code)
	}
	w = b.post(t, "/dags/form/enqueue", "params", "day=2026-11\r\nmore=[1]\r\nlimit=7")
	made, err := b.store.List(t.Context(), queue.Filter{Limit: 9})
	if err != nil || len(made.Runs) != 1 {
		t.Fatal(w.Code, plainText(w.Body.String()), err)
	}
	if diff := cmp.Diff(`{"day": "2026-11", "more": [1], "limit": "7"}`, string(made.Runs[0].Params)); diff != "" {
		t.Error(diff)
	}
}

func TestAgain_SendsWhatChanged(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	b.putForm(t)
	id := b.enqueue(t, queue.Request{DAG: "form", Params: map[string]any{"day": "2026-10", "limit": 7, "full": false, "note": "a"}})
	b.page(t, runPath(id)+"/again", http.StatusConflict)
	b.fail(t, id, "it broke")
	wantTexts(t, b.page(t, runPath(id), http.StatusOK), "Run again…")
	page := b.page(t, runPath(id)+"/again", http.StatusOK)
	wantMarkup(t, page, `value="2026-10"`, `<option value="false" selected>`)
	wantTexts(t, page, "SELECT oarlock.rerun(1);", "as in the run: false", "The command line makes a new run with")
	wantTexts(t, b.page(t, runPath(id)+"/again?latest=1&param.limit=8", http.StatusOK), "oarlock retry 1 --latest -p limit=8", `SELECT oarlock.rerun(1, '{"limit":8}', latest => true);`)
	w := b.post(t, runPath(id)+"/again", "param.day", "2026-10", "param.limit", "99")
	if w.Code != http.StatusUnprocessableEntity {
		t.Errorf("%d", w.Code)
	}
	for range 2 {
		w = b.post(t, runPath(id)+"/again", onceField, "n", "param.day", "2026-10", "param.limit", "8", "param.full", "", "param.note", "")
	}
	all, err := b.store.List(t.Context(), queue.Filter{Limit: 9})
	made := all.Runs
	if err != nil || len(made) != 2 || runPath(made[0].ID) != w.Header().Get("Location") || made[0].RetryOf != id {
		t.Fatalf("%d runs, %d %s, %v", len(made), w.Code, plainText(w.Body.String()), err)
	}
	if diff := cmp.Diff(`{"day": "2026-10", "full": false, "note": "", "limit": 8}`, string(made[0].Params)); diff != "" {
		t.Error(diff)
	}
}

func TestEnqueue_IsForWhomTheDatabaseLets(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*testBundle{"reader": setup(t, "oarlock_read", Options{}), "read only": setup(t, "oarlock_admin", Options{ReadOnly: true})} {
		id, err := openStore(t, b.db.URL).Enqueue(t.Context(), queue.Request{DAG: "report"})
		if err != nil {
			t.Fatal(err)
		}
		b.fail(t, id, "x")
		if page := b.page(t, runPath(id), http.StatusOK); strings.Contains(page, "/again") {
			t.Errorf("%s is offered to run again", name)
		}
		for _, path := range []string{"/runs", "/runs?dag=report", "/dags/report"} {
			if page := b.page(t, path, http.StatusOK); strings.Contains(page, "Enqueue…") {
				t.Errorf("%s is offered to ask for a run on %s", name, path)
			}
		}
		for _, path := range []string{"/dags/report/enqueue", runPath(id) + "/again"} {
			wantTexts(t, b.page(t, path, http.StatusForbidden), "lacks the right to ask for runs")
			if w := b.post(t, path, "param.day", "x"); w.Code != http.StatusForbidden {
				t.Errorf("%s: %s posts: %d", name, path, w.Code)
			}
		}
	}
}

func TestHTMLPattern_IsOnlyWhatMeansTheSame(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		`^\d{4}-\d{2}$`: `\d{4}-\d{2}`, `^[a-z][a-z0-9_]*$`: `[a-z][a-z0-9_]*`, `^[^a]+\.csv$`: `[^a]+\.csv`,
		`abc`: "", `^abc`: "", `^a|b$`: "", `^(?i)a$`: "", `^\pL+$`: "", `^.$`: "", `^a\$`: "", "": "",
	} {
		if got := htmlPattern(pattern); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
