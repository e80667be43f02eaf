package web

import (
	"bytes"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBundle is a database with a DAG, and the pages of it.
type testBundle struct {
	db      *pgtest.DB
	conn    *pgx.Conn // the owner's
	store   *queue.Store
	server  *server
	handler http.Handler
	logged  *bytes.Buffer
}

const reportDAG = `
name: report
params: [{name: day, type: string}]
steps:
  - {id: load, run: "true"}
  - {id: confirm, action: approval, with: {prompt: "sure?"}, depends: [load]}
`

// setup makes a bundle. The pages have the rights of a login with role; "" is the owner.
func setup(t *testing.T, role string, o Options) *testBundle {
	t.Helper()
	db := pgtest.NewWithRoles(t)
	b := &testBundle{db: db, conn: db.Conn(t), logged: &bytes.Buffer{}}
	owner := openStore(t, db.URL)
	spec, err := dagspec.Parse("dag.yaml", []byte(reportDAG))
	if err == nil {
		_, err = owner.PutDAG(t.Context(), spec, reportDAG, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	b.store = owner
	if role != "" {
		b.store = openStore(t, db.Login(t, role))
	}
	o.Log = slog.New(slog.NewTextHandler(b.logged, nil))
	if b.server, err = newServer(b.store, o); err != nil {
		t.Fatal(err)
	}
	b.handler = b.server.guard(b.server.routes())
	return b
}

func openStore(t *testing.T, url string) *queue.Store {
	t.Helper()
	store, err := queue.Open(t.Context(), queue.Config{URL: url, OwnSchema: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// enqueue makes a run.
func (b *testBundle) enqueue(t *testing.T, r queue.Request) queue.RunID {
	t.Helper()
	if r.DAG == "" {
		r.DAG = "report"
	}
	id, err := b.store.Enqueue(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// ask makes step confirm of a run wait for approval.
func (b *testBundle) ask(t *testing.T, run queue.RunID) {
	t.Helper()
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, item, alt, state, generation, attempt, epoch, seq, deadline)
		SELECT $1, 1, '', 0, 'waiting', 1, 1, 1, 1, now() + interval '2 h'`, run)
	b.exec(t, `INSERT INTO oarlock.approvals_open (run_id, step, item, alt, prompt, inputs, approvers, since)
		VALUES ($1, 1, '', 0, $2, '[{"name": "ticket", "type": "string", "required": true}, {"name": "note", "type": "string"}]', NULL, now() - interval '5 min')`, run, askedPrompt)
}

const askedPrompt = "Release it?\nSee <b>ticket</b>"

// fail ends a run as failed after ten seconds: of its six tasks one failed, and two depended on that one.
func (b *testBundle) fail(t *testing.T, run queue.RunID, reason string) {
	t.Helper()
	b.exec(t, `UPDATE oarlock.runs SET state = 'failed', reason = $2, started_at = now() - interval '10 s', finished_at = now(), queue_deadline = NULL,
		counts = '{"total": 6, "open": 0, "succeeded": 3, "failed": 1, "upstream_failed": 2}' WHERE run_id = $1`, run, reason)
}

func (b *testBundle) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := b.conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// request asks a handler for a path, on localhost unless change says otherwise.
func request(t *testing.T, h http.Handler, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Host = "localhost:7070"
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// post sends a form, given by pairs of name and value, as a page of this server does.
func post(t *testing.T, h http.Handler, path string, pairs ...string) *httptest.ResponseRecorder {
	t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return request(t, h, path, func(r *http.Request) {
		r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	})
}

func (b *testBundle) post(t *testing.T, path string, pairs ...string) *httptest.ResponseRecorder {
	t.Helper()
	return post(t, b.handler, path, pairs...)
}

func (b *testBundle) get(t *testing.T, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	return request(t, b.handler, path, change...)
}

// page wants a path to be answered with a status, and returns its HTML.
func (b *testBundle) page(t *testing.T, path string, status int) string {
	t.Helper()
	w := b.get(t, path)
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != status {
		t.Fatalf("%s: %d, want %d, %v\n%s\nlog: %s", path, w.Code, status, err, body, b.logged)
	}
	return string(body)
}

// wantTexts wants a page to show texts, which it may show as HTML does.
func wantTexts(t *testing.T, page string, texts ...string) {
	t.Helper()
	plain := plainText(page)
	for _, text := range texts {
		if !strings.Contains(plain, text) {
			t.Errorf("the page does not show %q:\n%s", text, plain)
		}
	}
}

var (
	tagText   = regexp.MustCompile(`<[^>]*>`)
	spaceText = regexp.MustCompile(`\s+`)
)

func plainText(page string) string {
	return spaceText.ReplaceAllString(html.UnescapeString(tagText.ReplaceAllString(page, " ")), " ")
}

var linkText = regexp.MustCompile(`(?:href|src|action|data-live)="([^"]*)"`)

// links are the targets of a page's links, forms and assets.
func links(t *testing.T, page string) (all []string) {
	t.Helper()
	for _, m := range linkText.FindAllStringSubmatch(page, -1) {
		link := html.UnescapeString(m[1])
		if _, err := url.Parse(link); err != nil {
			t.Errorf("link %q: %v", link, err)
		}
		all = append(all, link)
	}
	return all
}

// wantMarkup wants HTML to have this in it.
func wantMarkup(t *testing.T, page string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %s:\n%s", part, page)
		}
	}
}
