package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/queue"
)

// controls returns the requests to runs: verb, step and arguments.
func (b *testBundle) controls(t *testing.T) string {
	t.Helper()
	var all string
	err := b.conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(concat_ws(' ', verb, step, args::text, outcome), '; ' ORDER BY control_id), '') FROM oarlock.controls").Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantAsked posts, follows the answer to the run's page, and requires the page to show the outcome of the request.
func (b *testBundle) wantAsked(t *testing.T, path, says string, pairs ...string) {
	t.Helper()
	w := b.post(t, path, pairs...)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%s: %d %s", path, w.Code, plainText(w.Body.String()))
	}
	wantTexts(t, b.page(t, w.Header().Get("Location"), http.StatusOK), says)
}

func TestSteer_AsksARun(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	run := runPath(b.enqueue(t, queue.Request{}))
	wantTexts(t, b.page(t, run, http.StatusOK), "Pause", "Cancel…")
	b.wantAsked(t, run+"/pause", "run 1: pause asked for, the next worker that drives the run decides")
	b.wantAsked(t, run+"/resume", "run 1: resume asked for, the next worker that drives the run decides")
	wantTexts(t, b.page(t, run+"/cancel", http.StatusOK), "oarlock cancel 1", "These steps never start: load, confirm.", "Cancel it")
	wantTexts(t, b.page(t, run+"/retry", http.StatusOK), "The run has not ended: choose the step to repeat", "lacks the right, or the state", "One step that failed")
	wantTexts(t, b.page(t, run+"/retry?mode=step&step=load", http.StatusOK), "oarlock retry 1 --step load", "wait again. All other steps go on.")
	for range 2 {
		b.wantAsked(t, run+"/cancel", "run 1: cancel applied (canceled)", onceField, "a")
	}
	wantTexts(t, b.page(t, run, http.StatusOK), "Retry…")
	wantTexts(t, b.page(t, run+"/retry", http.StatusOK), "oarlock retry 1", "These steps run again: load, confirm.")
	from := b.page(t, run+"/retry?mode=from&step=confirm", http.StatusOK)
	wantTexts(t, from, "oarlock retry 1 --from confirm", "These steps run again: confirm.")
	wantMarkup(t, from, `href="`+run+`/retry?mode=step&amp;step=confirm">One step alone`, `href="`+run+`/retry?mode=all">Everything`)
	wantTexts(t, b.page(t, run+"/retry?mode=from", http.StatusOK), "Choose the step to begin with.")
	b.wantAsked(t, run+"/retry", "load: retry asked for, the next worker that drives the run decides", "mode", "step", "step", "load")
	want := `pause {} refused; resume {} refused; cancel {"now": false} applied; retry load {"mode": "step", "generation": 2}`
	if diff := cmp.Diff(want, b.controls(t)); diff != "" {
		t.Error(diff)
	}
}

func TestSteer_OffersARetryThatDoesSomething(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	b.putReport(t, "name: handled\nhandler_on: {exit: {run: \"true\"}}\nsteps: [{id: a, run: \"true\"}]\n")
	run := runPath(b.enqueue(t, queue.Request{DAG: "handled"}))
	b.exec(t, "UPDATE oarlock.runs SET started_at = now(), epoch = 1")
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, finished_at)
		VALUES (1, 0, 'succeeded', 1, 1, 1, 1, now(), now()), (1, 1, 'succeeded', 1, 1, 1, 2, now(), now())`)
	b.exec(t, "UPDATE oarlock.runs SET state = 'succeeded', finished_at = now()")
	offers := func(path, link string) bool { return strings.Contains(b.page(t, path, http.StatusOK), link) }
	if offers(run, ">Retry…") || !offers(run, "Run again…") {
		t.Error("the page of a run that succeeded offers to retry what failed")
	}
	if !offers(run+"?step=a", "Retry from here…") || offers(run+"?step=@exit", "Retry from here…") {
		t.Error("a retry begins at a step, and at no handler")
	}
	for path, says := range map[string]string{
		"/retry": "Nothing failed or was canceled, so nothing would run again.", "/retry?mode=from&step=@exit": "A handler runs again with the steps",
	} {
		page := b.page(t, run+path, http.StatusOK)
		wantTexts(t, page, says)
		if strings.Contains(page, `method="post"`) {
			t.Errorf("%s offers a retry", path)
		}
	}
	b.wantAsked(t, run+"/retry", "run 1: retry refused, there is nothing to repeat: no task failed or was canceled")
	wantTexts(t, b.page(t, run+"/retry?mode=all", http.StatusOK), "These steps run again: a.")
	b.wantAsked(t, run+"/retry", "run 1: retry asked for", "mode", "all")
}

// The page of a run that a pause holds back shows the command that resumes, if the login may use it. Without a worker, the page
// of any login shows how to start one.
func TestSteer_NamesWhatEndsAPause(t *testing.T) {
	t.Parallel()
	for role, offered := range map[string]bool{"oarlock_admin": true, "oarlock_read": false} {
		b := setup(t, role, Options{})
		b.exec(t, "SELECT oarlock.enqueue('report'), oarlock.set_queue('default', paused => true)")
		page := b.page(t, "/runs/1", http.StatusOK)
		wantTexts(t, page, "queue default is paused by ")
		if strings.Contains(page, "oarlock queues resume default") != offered {
			t.Errorf("%s is offered the end of the pause: %v", role, !offered)
		}
		b.exec(t, "UPDATE oarlock.lanes SET selector = '{\"gpu\": \"yes\"}'")
		wantTexts(t, b.page(t, "/runs/1", http.StatusOK), "oarlock worker --label gpu=yes")
		b.exec(t, "UPDATE oarlock.installation SET served_at = now(), database = 1")
		if page := b.page(t, "/runs/1", http.StatusOK); strings.Contains(page, "oarlock worker --label") {
			t.Errorf("%s is offered a worker that would refuse a copy", role)
		}
	}
}

func TestSteer_CancelsOnceUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	run := b.enqueue(t, queue.Request{})
	b.exec(t, "INSERT INTO oarlock.controls (run_id, verb, args, by, decided_at, outcome, state) VALUES ($1, 'cancel', '{\"now\": false}', 'eve', now(), 'accepted', 'running')", run)
	w := b.post(t, runPath(run)+"/cancel")
	if w.Code != http.StatusUnprocessableEntity {
		t.Errorf("%d", w.Code)
	}
	wantTexts(t, w.Body.String(), "A second cancel skips the handlers", "asked for at", "by eve", "Cancel now, skip handlers")
	wantMarkup(t, w.Body.String(), `name="seen" value="1"`)
	w = b.post(t, "/runs/act", "verb", "cancel", "run", "1")
	wantTexts(t, w.Body.String(), "0 of 1 accepted", "A cancel was asked for already.")
	b.exec(t, "INSERT INTO oarlock.controls (run_id, verb, by, decided_at, outcome, state) VALUES ($1, 'retry', 'eve', now(), 'accepted', 'queued')", run)
	w = b.post(t, runPath(run)+"/cancel", "now", "1", seenField, "1")
	wantTexts(t, w.Body.String(), "The run was retried since this page was made", "Cancel it")
	if w.Code != http.StatusUnprocessableEntity || strings.Contains(w.Body.String(), "Cancel now") {
		t.Errorf("a cancel of an earlier generation: %d", w.Code)
	}
	b.wantAsked(t, runPath(run)+"/cancel", "run 1: cancel applied", "now", "1")
}

func TestSteer_SaysWhatACancelWaitsFor(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	b.putReport(t, "name: handled\nhandler_on: {exit: {run: \"true\"}}\nsteps: [{id: a, run: \"true\"}]\n")
	run := b.enqueue(t, queue.Request{DAG: "handled"})
	b.exec(t, "UPDATE oarlock.runs SET started_at = now()")
	b.wantAsked(t, runPath(run)+"/cancel", "run 1: cancel accepted, ends when a worker takes it (")
	wantTexts(t, b.page(t, runPath(run)+"?asked=1", http.StatusOK), "): @exit is to run first")
}

func TestSteer_RetriesAnItem(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	run := runPath(b.gallery(t, 10))
	b.exec(t, "DELETE FROM oarlock.controls")
	page := b.page(t, run+"?step=resize&item=part-1", http.StatusOK)
	wantMarkup(t, page, `href="`+run+`/retry?item=part-1&amp;mode=from&amp;step=resize">Retry this item…`)
	page = b.page(t, run+"/retry?item=part-1&mode=from&step=resize", http.StatusOK)
	wantTexts(t, page, "These steps run again: resize/part-1, publish.", "oarlock retry 1 --from resize/part-1")
	wantMarkup(t, page, `name="item" value="part-1"`, `href="`+run+`/retry?item=part-1&amp;mode=step&amp;step=resize">One step alone`, `href="`+run+`/retry?mode=all">`)
	b.wantAsked(t, run+"/retry", "resize/part-1: retry asked for", "mode", "from", "step", "resize", "item", "part-1")
}

// ticketField is the empty field of a required input.
const ticketField = `<label for="input-ticket">ticket <span class="dim">string, required</span></label>
  <input id="input-ticket" name="input.ticket" type="text" value="" placeholder="" autocomplete="off"`

func TestSteer_Decides(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	hostile := `<script>alert(1)</script>`
	for verb, c := range map[string]struct{ want, says string }{
		"approve": {`approve confirm {"outputs": {"ticket": "T-7", "comment": "` + hostile + `"}}`, "confirm: approve asked for"},
		"reject":  {`reject confirm {"reason": "` + hostile + `"}`, "confirm: reject asked for"},
	} {
		run := b.enqueue(t, queue.Request{})
		b.ask(t, run)
		page := b.page(t, runPath(run)+"?step=confirm", http.StatusOK)
		wantMarkup(t, page, ticketField+` required>`, `formaction="`+runPath(run)+`/reject"`, "See &lt;b&gt;ticket&lt;/b&gt;")
		wantTexts(t, b.page(t, runPath(run)+"/"+verb+"?step=confirm", http.StatusOK), "Release it?", "Approve", "Reject")
		b.exec(t, "DELETE FROM oarlock.controls")
		b.wantAsked(t, runPath(run)+"/"+verb, c.says, "step", "confirm", "input.ticket", "T-7", "comment", hostile)
		if got := b.controls(t); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	run := b.enqueue(t, queue.Request{})
	b.ask(t, run)
	w := b.post(t, runPath(run)+"/approve", "step", "confirm", "input.note", hostile, "comment", "as \"agreed\"")
	if w.Code != http.StatusUnprocessableEntity || strings.Contains(w.Body.String(), hostile) {
		t.Errorf("without what it asks for: %d", w.Code)
	}
	wantTexts(t, w.Body.String(), "ticket", "Release it?")
	wantMarkup(t, w.Body.String(), `role="alert"`, ticketField+` required aria-invalid="true" aria-describedby="input-ticket-problem">`,
		`<p class="wrong" id="input-ticket-problem">The approval needs this input.</p>`,
		`name="input.note" type="text" value="&lt;script&gt;alert(1)&lt;/script&gt;"`, `name="comment" type="text" value="as &#34;agreed&#34;"`)
}

func TestSteer_DecidesByTypedInputs(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	run := b.enqueue(t, queue.Request{})
	b.ask(t, run)
	b.exec(t, `UPDATE oarlock.approvals_open SET inputs = '[{"name": "ok", "type": "boolean", "required": true}, {"name": "n", "type": "integer", "minimum": 1, "maximum": 5},
		{"name": "env", "type": "string", "enum": ["staging", "<prod>"], "default": "staging", "description": "Where <to>."}, {"name": "data", "type": "json"}]'`)
	path := runPath(run) + "/approve"
	wantMarkup(t, b.page(t, path+"?step=confirm", http.StatusOK),
		`<select id="input-ok" name="input.ok" required><option value="">–</option><option value="true">true</option><option value="false">false</option></select>`,
		`<input id="input-n" name="input.n" type="number" value="" placeholder="" autocomplete="off" min="1" max="5" step="1">`,
		`<option value="">default: staging</option><option value="staging">staging</option><option value="&lt;prod&gt;">&lt;prod&gt;</option></select>`,
		`Where &lt;to&gt;.`, `<textarea id="input-json-data" name="input-json.data"`)
	wantTexts(t, b.page(t, "/approvals", http.StatusOK), "ok, boolean, required", "n, integer", "env, staging or <prod>, default staging", "data, json")
	for _, c := range []struct {
		sent []string
		want []string
	}{
		{[]string{"input.ok", "maybe", "input.n", "3"}, []string{`<p class="wrong" id="input-ok-problem">must be true or false, not &#34;maybe&#34;</p>`, `<option value="maybe" selected>`, `name="input.n" type="number" value="3"`}},
		{[]string{"input.ok", "true", "input.n", "9"}, []string{`<p class="wrong" id="input-n-problem">must be 5 or less, not 9</p>`, `name="input.n" type="number" value="9"`, `<option value="true" selected>`}},
		{[]string{"input.ok", "true", "input-json.data", "{a"}, []string{`<p class="wrong" id="input-json-data-problem">this is not JSON: &#34;{a&#34;</p>`, "{a</textarea>"}},
	} {
		w := b.post(t, path, append([]string{"step", "confirm"}, c.sent...)...)
		if w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%q: %d", c.sent, w.Code)
		}
		wantMarkup(t, w.Body.String(), append(c.want, `role="alert"`)...)
	}
	b.wantAsked(t, path, "confirm: approve asked for", "step", "confirm", "input.ok", "true", "input.n", "3", "input.env", "", "input-json.data", `{"a": [1]}`)
	if got, want := b.controls(t), `approve confirm {"outputs": {"n": 3, "ok": true, "env": "staging", "data": {"a": [1]}}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSteer_Marks(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	run := runPath(b.enqueue(t, queue.Request{}))
	w := b.post(t, run+"/mark", "step", "load", "as", "skipped", "outputs", `["x"]`)
	if w.Code != http.StatusUnprocessableEntity {
		t.Errorf("outputs that are no object: %d", w.Code)
	}
	wantTexts(t, w.Body.String(), "no JSON object", `["x"]`)
	wantMarkup(t, w.Body.String(), "<option selected>skipped</option>")
	b.wantAsked(t, run+"/mark", "load: mark asked for", "step", "load", "as", "succeeded", "outputs", `{"rows": 7}`)
	if got := b.controls(t); got != `mark load {"as": "succeeded", "decides": null, "outputs": {"rows": 7}}` && got != `mark load {"as": "succeeded", "outputs": {"rows": 7}}` {
		t.Error(got)
	}
	for _, path := range []string{"/mark?step=load&as=running", "/retry?mode=some", "/cancel?step=nowhere"} {
		if w := b.get(t, run+path); w.Code != http.StatusBadRequest && w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestSteer_OffersWhatTheDatabaseAllows(t *testing.T) {
	t.Parallel()
	for role, may := range map[string]bool{"oarlock_read": false, "oarlock_submit": true} {
		b := setup(t, role, Options{})
		own := b.store
		if !may {
			own = openStore(t, b.db.URL)
		}
		id, err := own.Enqueue(t.Context(), queue.Request{DAG: "report"})
		if err != nil {
			t.Fatal(err)
		}
		offers := func(path string) bool { return strings.Contains(b.page(t, path, http.StatusOK), `method="post"`) }
		for _, path := range []string{runPath(id), runPath(id) + "/cancel", runPath(id) + "/pause"} {
			if offers(path) != may {
				t.Errorf("%s: %s offers an action: %v", role, path, !may)
			}
		}
		if w := b.post(t, runPath(id)+"/cancel"); (w.Code == http.StatusSeeOther) != may {
			t.Errorf("%s cancels: %d", role, w.Code)
		}
		other, err := openStore(t, b.db.URL).Enqueue(t.Context(), queue.Request{DAG: "report"})
		if err != nil {
			t.Fatal(err)
		}
		if w := b.post(t, runPath(other)+"/cancel"); w.Code == http.StatusSeeOther {
			t.Errorf("%s cancels the run of another: %d", role, w.Code)
		}
	}
	only := setup(t, "", Options{ReadOnly: true})
	if page := only.page(t, runPath(only.enqueue(t, queue.Request{})), http.StatusOK); strings.Contains(page, `method="post"`) {
		t.Error("a server that only reads offers an action")
	}
}

func TestAsked_IsOfTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	one, two := b.enqueue(t, queue.Request{}), b.enqueue(t, queue.Request{})
	w := b.post(t, runPath(one)+"/cancel")
	_, asked, _ := strings.Cut(w.Header().Get("Location"), "?")
	for _, query := range []string{asked, "asked=77"} {
		if page := b.page(t, runPath(two)+"?"+query, http.StatusOK); strings.Contains(page, "cancel applied") {
			t.Errorf("%s: run %d says what another answered", query, two)
		}
	}
}

// A role that steers its own runs only does not help with the run of another login: the hint names both roles.
func TestSteer_NamesTheRolesThatHelp(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_read", Options{})
	run := b.foreign(t)
	w := b.post(t, runPath(run)+"/retry", "mode", "failed")
	if w.Code != http.StatusForbidden {
		t.Errorf("%d: %s", w.Code, plainText(w.Body.String()))
	}
	wantTexts(t, w.Body.String(), "grant oarlock_submit to this user for its own runs, or oarlock_admin for any")
}

// While the run is under way, a failed step can be retried and marked, also one with failed replacements, and one that succeeded
// can be retried.
func TestSteer_OffersStepsOfARunUnderWay(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	b.putReport(t, "name: repl\nsteps: [{id: a, run: \"true\", on_error: [{do: replace, with: {run: \"false\"}}]}, {id: f, run: \"true\"}, {id: s, run: \"true\"}]\n")
	run := runPath(b.enqueue(t, queue.Request{DAG: "repl"}))
	b.exec(t, "UPDATE oarlock.runs SET started_at = now(), epoch = 1")
	const row = "INSERT INTO oarlock.tasks (run_id, step, alt, state, attempt, generation, epoch, seq, started_at, finished_at, grown) VALUES "
	shows := func(path string, want ...string) {
		t.Helper()
		page := b.page(t, path, http.StatusOK)
		for _, link := range []string{"Retry…", "Mark…", "Retry from here…", "Retry a step…", "failed</option>", "lacks the right"} {
			if strings.Contains(page, link) != slices.Contains(want, link) {
				t.Errorf("%s: %q is shown: %t", path, link, !slices.Contains(want, link))
			}
		}
	}
	shows(run+"?step=s", "Mark…")
	b.exec(t, row+"(1, 2, 0, 'succeeded', 1, 1, 1, 4, now(), now(), null)")
	shows(run+"?step=s", "Retry from here…", "Retry a step…")
	wantMarkup(t, b.page(t, run, http.StatusOK), run+"/retry?mode=from")
	shows(run+"/mark?step=s", "lacks the right")
	shows(run+"/mark?step=f", "failed</option>")
	b.exec(t, row+`(1, 0, 0, 'replaced', 1, 1, 1, 1, now(), now(), '{"generation":1,"rule":0,"first_alt":1,"count":1}'), (1, 0, 1, 'running', 1, 1, 1, 2, now(), null, null), (1, 1, 0, 'failed', 1, 1, 1, 3, now(), now(), null)`)
	shows(run+"?step=f", "Retry…", "Mark…", "Retry a step…")
	shows(run + "/mark?step=f")
	shows(run+"/mark?step=a", "lacks the right")
	b.exec(t, "UPDATE oarlock.tasks SET state = 'failed', finished_at = now() WHERE alt = 1")
	shows(run+"?step=a", "Retry…", "Mark…", "Retry a step…")
	shows(run + "/mark?step=a")
	shows(run + "/retry?mode=step")
	wantTexts(t, b.page(t, run+"/retry?mode=step", http.StatusOK), "Choose the step to begin with.")
}
