package weight

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web"
)

// Bounds of a page: docs/scale.md promises them.
const (
	maxStatements = 4
	maxElements   = 6_000
	maxPageTime   = 100 * time.Millisecond
	maxJumpTime   = 150 * time.Millisecond // of a jump to a line of a log
	maxDrawTime   = 150 * time.Millisecond // of drawing a timeline with 100,000 tasks
	maxSearchTime = 2500 * time.Millisecond
	searchRounds  = 5
	searchPieces  = 100 // statements of a search, which reads 64 MB
)

// reader loads pages as a login with the role oarlock_read sees them.
type reader struct {
	handler http.Handler
	sent    *pgtest.Statements
}

func (b *testBundle) reader(t *testing.T) *reader {
	t.Helper()
	pool, sent := pgtest.Counted(t, b.db.Login(t, "oarlock_read"))
	r := &reader{sent: sent}
	store, err := queue.Open(t.Context(), queue.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if r.handler, err = web.Handler(store, web.Options{Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return r
}

// load is the result of loading a page once.
type load struct {
	body string
	sent []string // statements sent
	took time.Duration
}

func (r *reader) load(t *testing.T, path string) load {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	request.Host = "localhost"
	answer := httptest.NewRecorder()
	r.sent.Take()
	begun := time.Now()
	r.handler.ServeHTTP(answer, request)
	l := load{took: time.Since(begun), sent: r.sent.Take()}
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%s: %d, %v\n%s", path, answer.Code, err, body)
	}
	l.body = string(body)
	return l
}

// pageCase is a page, with its bounds where they differ from those of all pages.
type pageCase struct {
	path       string
	statements int           // at most; 0: maxStatements
	time       time.Duration // at most, for 19 in 20 loads; 0: maxPageTime
	rounds     int           // how many loads; 0: as many as the flag sets
}

// drawTime returns how long a page of the large run may take. The timeline is its first view.
func drawTime(path string) time.Duration {
	if strings.Contains(path, "view=") {
		return maxPageTime
	}
	return maxDrawTime
}

func (b *testBundle) pageCases(s seeds) []pageCase {
	run := fmt.Sprintf("/runs/%d", s.large)
	log := run + "/steps/scan/log"
	cases := []pageCase{
		{path: log},
		{path: log + "?from=1", time: maxJumpTime},
		{path: fmt.Sprint(log, "?line=", s.lines/2), time: maxJumpTime},
		{path: fmt.Sprint(log, "?line=", s.lines-1000), time: maxJumpTime},
		{path: log + "?stream=stderr"},
		{path: fmt.Sprint(log, "?stream=stderr&line=", s.lines/3), time: maxJumpTime},
		{path: log + "?q=^1"},
		{path: log + "?q=no+such+text", time: maxSearchTime, rounds: searchRounds, statements: searchPieces},
	}
	for _, path := range []string{"/steps/scan", "/steps/resize", "/steps/resize?item=part-1", "/steps/resize/log?item=part-1"} {
		cases = append(cases, pageCase{path: run + path})
	}
	// for a failed run one more statement reads how other runs of its DAG ended
	for _, path := range []string{
		"?step=scan", "?step=scan&tab=outputs", "?step=scan&tab=definition", "?step=resize", "?step=resize&item=part-1&tab=attempts",
		"?view=graph", "?view=graph&step=resize&item=part-1", "?view=tasks", "?view=tasks&step=resize", "?view=tasks&state=failed",
	} {
		cases = append(cases, pageCase{path: run + path, statements: maxStatements + 1, time: drawTime(path)})
	}
	// the panel shows an item, by default the first failed one, that no list of the page contains
	for _, path := range []string{
		"", "?idle=1", "?zoom=resize", "?step=resize&item=part-1", "?view=tasks&state=running", "?view=tasks&find=nothing", "?view=events",
		"?view=events&step=resize&item=part-1", "?view=params",
	} {
		cases = append(cases, pageCase{path: run + path, statements: maxStatements + 2, time: drawTime(path)})
	}
	for _, path := range []string{
		"", "dag=dag-7", "dag=dag-7&state=failed", "dag=dag-7&state=succeeded", "dag=dag-7&state=queued", "label=team%3Dteam-4", "label=rare%3Dyes", "label=team%3Dnone",
		"since=2h", "since=7d", "since=2h&state=failed", "queue=queue-3", "queue=queue-3&state=failed", "dag=none", "parent=1", "state=running&state=failed&state=succeeded",
		fmt.Sprint("before=", s.middle), fmt.Sprint("dag=dag-7&before=", s.middle), fmt.Sprint("state=succeeded&before=", s.middle), fmt.Sprint("queue=queue-3&before=", s.middle),
		"state=running", "state=queued", "state=waiting", "state=paused", "state=failed", "state=succeeded", "state=scheduled", "state=canceled",
	} {
		cases = append(cases, pageCase{path: strings.TrimSuffix("/runs?"+path, "?")})
	}
	for _, path := range []string{
		"/dags", "/dags/dag-7", "/dags/large", "/queues", "/queues/queue-3", "/workers", "/schedules", "/schedules/dag-7/yearly", "/approvals", fmt.Sprint("/runs/", s.middle),
	} {
		cases = append(cases, pageCase{path: path})
	}
	return cases
}

// pagesAreLight loads each page again and again, one request after the other.
func (b *testBundle) pagesAreLight(t *testing.T, s seeds) {
	t.Helper()
	r := b.reader(t)
	t.Logf("%8s %8s %8s  %10s %8s %6s", "p50", "p95", "max", "statements", "elements", "KiB")
	for _, c := range b.pageCases(s) {
		c.statements, c.time, c.rounds = cmp.Or(c.statements, maxStatements), cmp.Or(c.time, maxPageTime), cmp.Or(c.rounds, *rounds)
		r.load(t, c.path) // the version of a DAG is read only once
		m := r.measure(t, c)
		t.Logf("%8.1f %8.1f %8.1f  %10d %8d %6d  %s", milliseconds(m.median), milliseconds(m.p95), milliseconds(m.longest), m.statements, m.elements, m.bytes>>10, c.path)
		if m.statements > c.statements || m.p95 > c.time || m.elements > maxElements {
			t.Errorf("%s: %d statements, %v, %d elements, at most %d, %v, %d: %s",
				c.path, m.statements, m.p95, m.elements, c.statements, c.time, maxElements, strings.Join(m.sent, ", "))
		}
	}
}

// cost is the cost of a page over many loads.
type cost struct {
	median, p95, longest time.Duration
	statements           int // the median, because only one load in two seconds reads the frame of all pages
	elements, bytes      int
	sent                 []string // statements of the last load
}

func (r *reader) measure(t *testing.T, c pageCase) cost {
	t.Helper()
	var took []time.Duration
	var sent []int
	var last load
	for range c.rounds {
		last = r.load(t, c.path)
		took, sent = append(took, last.took), append(sent, len(last.sent))
		if last.took > hopeless*c.time {
			break
		}
	}
	slices.Sort(took)
	slices.Sort(sent)
	n := len(took)
	return cost{
		median: took[n/2], p95: took[n*19/20], longest: took[n-1], statements: sent[n/2],
		elements: len(elementText.FindAllString(last.body, -1)), bytes: len(last.body), sent: last.sent,
	}
}

const hopeless = 5 // a page that takes this many times its bound is not loaded again

var elementText = regexp.MustCompile(`<[a-zA-Z]`)

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
