package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/queue"
)

const hostileName = `w<img src=x onerror=alert(1)>/"é`

// atWork registers a worker that serves queues (none: all queues), and gives it the runs.
func (b *testBundle) atWork(t *testing.T, name string, queues []string, runs ...queue.RunID) uuid.UUID {
	t.Helper()
	id := uuid.New()
	b.exec(t, `WITH w AS (INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, busy, waiting)
		VALUES ($1, $2, 'host<b>', 'b', 17, 'v1', '{"zone": "<i>eu</i>"}', $3, 8, 'cgroup', 30000, 'c', 6, 3) RETURNING worker_id)
		INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process,http}' FROM w`, id, name, append([]string{}, queues...))
	for _, run := range runs {
		b.exec(t, `UPDATE oarlock.runs SET state = 'running', worker_id = $2, claim_id = gen_random_uuid(), epoch = 1, started_at = now(), queue_deadline = NULL WHERE run_id = $1`, run, id)
	}
	return id
}

func TestQueues_ShowWhatWaitsAndRuns(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	b.exec(t, `SELECT oarlock.set_queue('etl', max_running => 40, max_queued => 500)`)
	first := b.enqueue(t, queue.Request{Queue: "etl"})
	for range dueShown {
		b.enqueue(t, queue.Request{Queue: "etl"})
	}
	id := b.atWork(t, hostileName, []string{"etl"}, first)
	b.atWork(t, "elsewhere", []string{"default"})
	b.exec(t, `UPDATE oarlock.queues SET paused_by = '<b>eve</b>', paused_at = now() WHERE name = 'etl'`)

	list := b.page(t, "/queues", http.StatusOK)
	wantTexts(t, list, "etl 20 of 500", "1 of 40", "paused by <b>eve</b>", "default 0 – 0", "oarlock queues")
	page := b.page(t, "/queues/etl", http.StatusOK)
	wantTexts(t, page, "Queue etl", "waiting 20 of 500", "running 1 of 40", "paused by <b>eve</b>", "report #2", "report #21", hostileName, "6 of 8", "oarlock queues resume etl",
		"oarlock queues set etl --max-running 40 --max-queued 500", "Resume")
	wantMarkup(t, page, `href="/workers/`+id.String()+`"`, `href="/runs?queue=etl&amp;state=queued"`, `data-live="/live/queues/etl"`)
	for _, wrong := range []string{"elsewhere", "<b>eve", "<img", "report #1 "} {
		if strings.Contains(page, wrong) || strings.Contains(plainText(page), wrong) && !strings.HasPrefix(wrong, "<") {
			t.Errorf("the page has %q:\n%s", wrong, page)
		}
	}
	if at, after := strings.Index(page, "report #2<"), strings.Index(page, "report #21<"); at < 0 || at > after {
		t.Error("what is due for longest is not first")
	}
	wantMarkup(t, b.page(t, "/runs/1", http.StatusOK), `<a href="/queues/etl">etl</a>`)
	wantTexts(t, b.page(t, "/queues/default", http.StatusOK), "No run waits in this queue.", "elsewhere", "oarlock queues pause default")
	wantTexts(t, b.page(t, "/queues/%3Cb%3Enone", http.StatusNotFound), "There is no queue <b>none.")
}

func TestQueues_ShowPoolsBelow(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	if list := b.page(t, "/queues", http.StatusOK); strings.Contains(list, "Pools") {
		t.Errorf("pools are listed, and there are none:\n%s", list)
	}
	b.exec(t, `SELECT oarlock.set_pool('heavy', slots => 5, note => '<b>note</b>'),
		oarlock.set_pool('crm', slots => 2, per_key => true, rate => 100, per => '1 minute', burst => 20), oarlock.close_pool('crm', until => '2100-01-02 03:04:05Z')`)
	worker := b.atWork(t, "w", nil)
	b.exec(t, `WITH f AS (INSERT INTO oarlock.fences (worker_id, channel) VALUES ($1, 'permits') RETURNING worker_id),
		c AS (INSERT INTO oarlock.permit_calls (worker_id, call) SELECT worker_id, 1 FROM f RETURNING worker_id)
		INSERT INTO oarlock.permits (worker_id, nth, pool, key, weight, run_id, run_priority, step_priority, since, granted_at)
		SELECT worker_id, n, 'heavy', '', 3, 1, 0, 0, now() - interval '2 minutes', CASE n WHEN 1 THEN now() END FROM c, generate_series(1, 2) n`, worker)
	b.server.pools.forget()
	list := b.page(t, "/queues", http.StatusOK)
	wantTexts(t, list, "Pools", "oarlock pools", "heavy 5 – 3", "1 2m", "open <b>note</b>", "crm 2 a key 100/1m a key, burst 20 0", "closed until 2100-01-02 03:04:05Z by")
	if strings.Contains(list, "<b>note") {
		t.Error("a note is markup")
	}
}

func TestQueues_AreNotServed(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	wantTexts(t, b.page(t, "/queues/default", http.StatusOK), "No worker at work takes runs from this queue.", "oarlock worker --queue default")
	wantTexts(t, b.page(t, "/workers", http.StatusOK), "No worker has been at work lately.", "oarlock worker")
	empty, err := b.server.renderRegion("queues.html", "queues#list", &queuesData{})
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, empty, "There is no queue.", "oarlock queues set NAME")
}

func TestQueue_ArePausedAndLimitedByForms(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	see := func(want string) {
		t.Helper()
		var got string
		if err := b.conn.QueryRow(t.Context(), `SELECT concat_ws(' ', paused_by IS NOT NULL, max_running, max_queued) FROM oarlock.queues WHERE name = 'default'`).Scan(&got); err != nil || got != want {
			t.Errorf("the queue is %q, %v, want %q", got, err, want)
		}
	}
	do := func(path, want string, status int, pairs ...string) {
		t.Helper()
		w := b.post(t, path, pairs...)
		if w.Code != status || w.Header().Get("Location") != want {
			t.Errorf("%s: %d to %q\n%s", path, w.Code, w.Header().Get("Location"), w.Body)
		}
	}
	wantMarkup(t, b.page(t, "/queues/default", http.StatusOK), `action="/queues/default/pause"`)
	do("/queues/default/pause", "/queues/default", http.StatusSeeOther)
	see("t 0 0")
	wantMarkup(t, b.page(t, "/queues/default", http.StatusOK), `action="/queues/default/resume"`)
	do("/queues/default/limits", "/queues/default", http.StatusSeeOther, "max_running", " 40 ", "max_queued", "500")
	see("t 40 500")
	do("/queues/default/resume", "/queues/default", http.StatusSeeOther)
	see("f 40 500")
	for _, wrong := range []string{"", "-1", "<b>", "2147483648", "1.5"} {
		w := b.post(t, "/queues/default/limits", "max_running", wrong, "max_queued", "7")
		if w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%q: %d", wrong, w.Code)
		}
		wantTexts(t, w.Body.String(), fmt.Sprintf("A max running is a whole number from 0 to 2,147,483,647, and 0 is no limit, not %q.", wrong))
		wantMarkup(t, w.Body.String(), `value="7"`, `aria-invalid="true"`)
	}
	see("f 40 500")
	do("/queues/none/pause", "", http.StatusNotFound)
	wantTexts(t, b.page(t, "/queues", http.StatusOK), "0 of 500")
	if strings.Contains(b.page(t, "/queues", http.StatusOK), "/queues/none") {
		t.Error("a queue was made")
	}
	if w := b.get(t, "/queues/default/pause"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/queues/default" {
		t.Errorf("the address of a form leads to %q", w.Header().Get("Location"))
	}
}

func TestWorkers_ShowWhoWorks(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	run := b.enqueue(t, queue.Request{})
	id := b.atWork(t, hostileName, []string{"<b>etl</b>"}, run)
	other := b.atWork(t, hostileName, nil)
	b.exec(t, `UPDATE oarlock.workers SET unfit = 'no <b>disk</b>', unfit_since = now() WHERE worker_id = $1`, id)
	b.exec(t, `UPDATE oarlock.workers SET state = 'lost', ended_at = now() WHERE worker_id = $1`, other)

	list := b.page(t, "/workers", http.StatusOK)
	wantTexts(t, list, "live, unfit "+hostileName+" host<b> · v1 6 of 8 3 1", "zone=<i>eu</i>", "lost "+hostileName, "oarlock workers --all")
	page := b.page(t, "/workers/"+id.String(), http.StatusOK)
	wantTexts(t, page, "Worker "+hostileName, "The worker claims nothing since", "no <b>disk</b>", "slots 6 of 8", "tasks waiting 3", "queues <b>etl</b>", "offers process http", "containment cgroup",
		"host<b>, pid 17", "report #1", "Other workers of this name", "Drain…")
	for _, html := range []string{list, page} {
		if strings.Contains(html, "<img") || strings.Contains(html, "<b>") || strings.Contains(html, "<i>eu") {
			t.Errorf("a name is markup:\n%s", html)
		}
	}
	wantTexts(t, b.page(t, "/workers/w%3Cimg%20src=x%20onerror=alert(1)%3E%2F%22%C3%A9", http.StatusOK), id.String())
	wantTexts(t, b.page(t, "/workers/"+other.String(), http.StatusOK), "ended", "other workers have taken over")
	wantTexts(t, b.page(t, "/workers/none", http.StatusNotFound), "There is no worker none.")
}

// A worker without a sign of life is shown as quiet in the list and on its page, which says what happens to its runs. In a
// database that may be a copy the page says so instead, because no worker starts there.
func TestWorker_IsQuietLongBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	id := b.atWork(t, "w1", nil, b.enqueue(t, queue.Request{}))
	b.atWork(t, "w2", nil)
	b.exec(t, `UPDATE oarlock.workers SET ttl_ms = 300000, beat = 720, started_at = now() - interval '1 h'`)
	path := "/workers/" + id.String()
	if page := plainText(b.page(t, path, http.StatusOK)); strings.Contains(page, "sign of life") {
		t.Errorf("it gives signs of life:\n%s", page)
	}
	b.exec(t, `UPDATE oarlock.workers SET beat_at = now() - interval '40 s', unfit = 'no room', unfit_since = now() WHERE worker_id = $1`, id)
	b.server.glances.forget()
	wantTexts(t, b.page(t, "/workers", http.StatusOK), "live, quiet ")
	wantTexts(t, b.page(t, "/runs", http.StatusOK), "of 8", "1 worker, 1 quiet")
	page := b.page(t, path, http.StatusOK)
	wantTexts(t, page, "live, quiet ", "The worker has given no sign of life for ", "lease 5m00s: other workers take over the worker's runs in about ", "driven by w1, which gives no sign of life since 20")
	if strings.Contains(page, "no room") {
		t.Error("what it said last is shown as what is wrong now")
	}
	wantTexts(t, b.page(t, "/runs/1", http.StatusOK), "driven by w1, which gives no sign of life since 20", "others take it over about 20")
	b.exec(t, `UPDATE oarlock.installation SET served_at = now(), database = 1`)
	page = plainText(b.page(t, path, http.StatusOK))
	if !strings.Contains(page, "this may be a copy of installation") || strings.Contains(page, "others take over") {
		t.Errorf("it may be a copy:\n%s", page)
	}
}

func TestWorker_IsDrainedAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	id, other := b.atWork(t, "twin", nil), b.atWork(t, "twin", nil)
	path := "/workers/" + id.String()
	page := b.page(t, path+"/drain", http.StatusOK)
	wantTexts(t, page, "Drain worker twin", "claims no more runs", "oarlock workers drain "+id.String(), "The worker drives no run.")
	wantMarkup(t, page, `action="`+path+`/drain"`, `name="once"`)
	if w := b.post(t, path+"/drain"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != path {
		t.Errorf("%d to %q\n%s", w.Code, w.Header().Get("Location"), w.Body)
	}
	wantTexts(t, b.page(t, path, http.StatusOK), "asked to drain Worker twin")
	if plain := plainText(b.page(t, "/workers/"+other.String(), http.StatusOK)); !strings.Contains(plain, "live Worker twin") {
		t.Errorf("the other was asked, too:\n%s", plain)
	}
	wantTexts(t, b.page(t, path+"/drain", http.StatusOK), "This worker cannot be drained: it is asked to drain.")
	b.exec(t, `UPDATE oarlock.workers SET state = 'gone', ended_at = now() WHERE worker_id = $1`, id)
	if w := b.post(t, path+"/drain"); w.Code != http.StatusConflict {
		t.Errorf("after its end: %d", w.Code)
	}
}

func TestFleet_ByRights(t *testing.T) {
	t.Parallel()
	for role, may := range map[string]struct{ read, change bool }{"oarlock_submit": {}, "oarlock_read": {read: true}, "oarlock_admin": {true, true}} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			b := setup(t, role, Options{})
			path := "/workers/" + b.atWork(t, "w", nil).String()
			if !may.read {
				for _, at := range []string{"/queues", "/queues/default", "/workers", path, path + "/drain"} {
					wantTexts(t, b.page(t, at, http.StatusForbidden), "lacks the right to see queues and workers", "oarlock_read")
				}
				if page := b.page(t, "/runs", http.StatusOK); strings.Contains(page, `"/queues"`) || strings.Contains(page, `"/workers"`) {
					t.Error("pages that it may not see are offered")
				}
				return
			}
			wantMarkup(t, b.page(t, "/runs", http.StatusOK), `href="/queues"`, `href="/workers"`)
			for at, action := range map[string]string{"/queues/default": `method="post"`, path: path + "/drain", path + "/drain": `method="post"`} {
				if page := b.page(t, at, http.StatusOK); strings.Contains(page, action) != may.change {
					t.Errorf("%s: offered: %v", at, !may.change)
				}
			}
			if w := b.post(t, "/queues/default/pause"); (w.Code == http.StatusForbidden) == may.change {
				t.Errorf("pause: %d", w.Code)
			}
			if w := b.post(t, path+"/drain"); (w.Code == http.StatusForbidden) == may.change {
				t.Errorf("drain: %d", w.Code)
			}
		})
	}
}

// follower reads a stream until a region arrives.
type follower struct {
	header http.Header
	text   strings.Builder
	leave  func()
}

func (f *follower) Header() http.Header { return f.header }
func (f *follower) WriteHeader(int)     {}
func (f *follower) Flush()              {}

func (f *follower) Write(text []byte) (int, error) {
	f.text.Write(text)
	if strings.Contains(f.text.String(), "event: region") {
		f.leave()
	}
	return len(text), nil
}

func TestFleet_StreamsEachPage(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	worker := "/workers/" + b.atWork(t, "w", nil).String()
	for at, id := range map[string]string{"/queues": "list", "/queues/default": "head", "/workers": "list", worker: "head"} {
		wantMarkup(t, b.page(t, at, http.StatusOK), `data-live="/live`+at+`"`)
		ctx, leave := context.WithCancel(t.Context())
		w := &follower{header: http.Header{}, leave: leave}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/live"+at, http.NoBody)
		r.Host = "localhost"
		b.handler.ServeHTTP(w, r)
		leave()
		wantMarkup(t, w.text.String(), `id="`+id+`"`)
	}
}

func TestDoctor_SaysWhatItFinds(t *testing.T) {
	t.Parallel()
	runs := 0
	var failing error
	b := setup(t, "oarlock_submit", Options{Doctor: func(context.Context) ([]Check, error) {
		runs++
		return []Check{
			{"encoding", "ok", "UTF8", ""}, {"horizon", "warn", "an <b>old</b>\nsnapshot", "end it"}, {"writable", "fail", "it is a standby", "name the primary"}, {"listen", "skip", "no connection", ""},
		}, failing
	}})
	wantTexts(t, b.page(t, "/doctor", http.StatusOK), "Nothing was examined since this server began.", "Examine", "oarlock doctor")
	if runs != 0 {
		t.Errorf("a page that was only looked at examined %d times", runs)
	}
	for range 2 {
		if w := b.post(t, "/doctor"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/doctor" {
			t.Errorf("%d %s", w.Code, w.Header().Get("Location"))
		}
		page := b.page(t, "/doctor", http.StatusOK)
		wantTexts(t, page, "ok encoding UTF8", "warn horizon an <b>old</b> snapshot end it", "fail writable it is a standby name the primary", "skip listen", "oarlock doctor")
	}
	if runs != 1 {
		t.Errorf("it examined %d times", runs)
	}
	wantMarkup(t, b.page(t, "/runs", http.StatusOK), `href="/doctor"`)
	failing = errors.New("broken")
	b.server.doctors.forget()
	if w := b.post(t, "/doctor"); w.Code != http.StatusInternalServerError {
		t.Errorf("an examination that fails: %d", w.Code)
	}
	wantTexts(t, b.page(t, "/doctor", http.StatusOK), "ok encoding UTF8")

	reads := setup(t, "", Options{ReadOnly: true, Doctor: func(context.Context) ([]Check, error) { t.Error("it examined"); return nil, nil }})
	if w := reads.post(t, "/doctor"); w.Code != http.StatusForbidden {
		t.Errorf("a server that only reads: %d", w.Code)
	}
	wantTexts(t, reads.page(t, "/doctor", http.StatusOK), "A server with --read-only examines nothing.")
	none := setup(t, "", Options{})
	if w := none.post(t, "/doctor"); w.Code != http.StatusNotFound {
		t.Errorf("without checks: %d", w.Code)
	}
	none.page(t, "/doctor", http.StatusNotFound)
	if strings.Contains(none.page(t, "/runs", http.StatusOK), "/doctor") {
		t.Error("a page that is not there is offered")
	}
}

func TestQueues_FoldIdleOnes(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	for i := range 12 {
		b.exec(t, `SELECT oarlock.set_queue($1)`, fmt.Sprintf("tenant-%02d", i))
	}
	b.enqueue(t, queue.Request{Queue: "tenant-07"})
	list := b.page(t, "/queues", http.StatusOK)
	wantTexts(t, list, "tenant-07 1", "12 idle queues")
	wantMarkup(t, list, `href="/queues?all=1"`, `data-live="/live/queues"`)
	if strings.Contains(list, "tenant-03") {
		t.Error("an idle queue has a row")
	}
	all := b.page(t, "/queues?all=1", http.StatusOK)
	wantTexts(t, all, "tenant-07 1", "tenant-03")
	wantMarkup(t, all, `data-live="/live/queues?all=1"`)
	if strings.Index(all, "tenant-07") > strings.Index(all, "tenant-03") {
		t.Error("an idle queue stands before a busy one")
	}
}
