package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
)

// alone is a store on a server of the test's own.
func alone(t *testing.T, settings map[string]string) (outside, *pgcluster.Node) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server")
	}
	node := pgcluster.Start(t, settings)
	return open(t, node), node
}

func (o outside) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), o.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// drivers drive runs until none is left to claim, whatever happens to the database. If a driver loses a claim, another driver
// claims the run later.
type drivers struct {
	wg      sync.WaitGroup
	mu      sync.Mutex
	strange []error
}

func (d *drivers) drive(t *testing.T, run *drive) {
	d.wg.Go(func() {
		err := run.toEnd(t.Context())
		if err != nil && !errors.Is(err, queue.ErrLeaseLost) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.strange = append(d.strange, fmt.Errorf("run %d: %w", run.claim.Run, err))
		}
	})
}

// finishAll polls and drives until every run is over, and then checks that each task was recorded once. It sweeps when a look
// asks for it: the sweep gives back claims that a poll made without getting the reply.
func (o outside) finishAll(t *testing.T, s *queue.Session, runs int) {
	t.Helper()
	var d drivers
	for end := time.Now().Add(2 * time.Minute); ; {
		polled, err := s.Poll(t.Context(), queue.Want{Slots: 8, Free: 8})
		if err == nil {
			for _, c := range polled.Claims {
				d.drive(t, begin(t, s, c))
			}
		}
		if _, err := s.Renew(t.Context(), queue.Vitals{}); errors.Is(err, queue.ErrLeaseLost) {
			t.Fatal("the lease is lost")
		}
		if looked, _ := s.Look(t.Context(), queue.Load{}); looked.Sweep {
			_, _ = s.SweepAll(t.Context())
		}
		if o.left(t) == "0" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%s runs are not over", o.left(t))
		}
	}
	d.wg.Wait()
	for _, err := range d.strange {
		t.Error(err)
	}
	const rows = `SELECT format('%s runs, %s tasks succeeded, %s events of a claim lost', (SELECT count(*) FROM oarlock.runs WHERE state = 'succeeded'),
		(SELECT count(*) FROM oarlock.tasks WHERE state = 'succeeded'), (SELECT count(*) FROM oarlock.runs WHERE losses > 0))`
	if got, want := o.text(t, rows), fmt.Sprintf("%d runs, %d tasks succeeded, 0 events of a claim lost", runs, 2*runs); got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// left returns how many runs are not over, or reports that the database does not answer.
func (o outside) left(t *testing.T) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), o.url)
	if err != nil {
		return "who knows how many"
	}
	defer conn.Close(t.Context())
	var n string
	if err := conn.QueryRow(t.Context(), "SELECT count(*)::text FROM oarlock.runs WHERE finished_at IS NULL").Scan(&n); err != nil {
		return "who knows how many"
	}
	return n
}

func TestOpen_SaysThatTheDatabaseIsDown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a server")
	}
	node := pgcluster.Start(t, nil)
	url := node.URL()
	node.Stop(t)
	_, err := queue.Open(t.Context(), queue.Config{URL: url})
	if pglink.Classify(err) != pglink.NotExecuted {
		t.Errorf("open: %v, which is %v", err, pglink.Classify(err))
	}
	if err != nil && strings.Contains(err.Error(), password(t, url)) {
		t.Error("the error shows the password")
	}
}

func password(t *testing.T, url string) string {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return c.Password
}

func TestSession_SurvivesCrashesOfTheDatabase(t *testing.T) {
	t.Parallel()
	o, node := alone(t, nil)
	s := o.session(t, "a")
	const runs = 300
	for range runs {
		o.enqueue(t)
	}
	crashed := make(chan struct{})
	go func() {
		defer close(crashed)
		for range 3 {
			node.Crash(t)
			node.Start(t)
		}
	}()
	defer func() { <-crashed }()
	o.finishAll(t, s, runs)
}

func TestSession_WaitsForAReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	o, node := alone(t, nil)
	s := o.session(t, "a")
	const runs = 20
	for range runs {
		o.enqueue(t)
	}
	held := claim(t, s)
	o.exec(t, "ALTER SYSTEM SET default_transaction_read_only = on")
	o.exec(t, "SELECT pg_reload_conf()")
	done := make(chan error, 1)
	go func() { done <- held.toEnd(t.Context()) }()
	refused := false
	for !refused {
		_, err := s.Renew(t.Context(), queue.Vitals{})
		refused = pglink.Classify(err) == pglink.WrongNode
		if err != nil && !refused {
			t.Fatalf("renew on a read-only server: %v, which is %v", err, pglink.Classify(err))
		}
	}
	o.url = node.URL() // the URL of a server that takes no writes
	o.exec(t, "ALTER SYSTEM RESET default_transaction_read_only")
	o.exec(t, "SELECT pg_reload_conf()")
	if err := <-done; err != nil {
		t.Errorf("a drive across a read-only phase: %v", err)
	}
	o.finishAll(t, s, runs)
}

func TestSession_KeepsItsConnectionsWhenThereAreNoMore(t *testing.T) {
	t.Parallel()
	o, node := alone(t, map[string]string{"max_connections": "14", "superuser_reserved_connections": "0"})
	s := o.session(t, "a")
	const runs = 5
	for range runs {
		o.enqueue(t)
	}
	d := claim(t, s)
	if _, err := s.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Fatal(err)
	}
	d.starts(t)
	free := hog(t, node)
	if _, err := pgx.Connect(t.Context(), o.url); pglink.Classify(err) != pglink.NotExecuted {
		t.Errorf("one more connection: %v, which is %v", err, pglink.Classify(err))
	}
	if err := d.commit(t.Context()); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("commit without a free connection: %v", err)
	}
	if _, err := s.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Errorf("renew without a free connection: %v", err)
	}
	free()
	if err := s.Release(t.Context(), d.claim, false, 0); err != nil {
		t.Fatal(err)
	}
	o.finishAll(t, s, runs)
}

// hog takes every remaining connection.
func hog(t *testing.T, node *pgcluster.Node) (free func()) {
	t.Helper()
	var held []*pgx.Conn
	for {
		conn, err := pgx.Connect(t.Context(), node.URL())
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	return func() {
		for _, conn := range held {
			_ = conn.Close(t.Context())
		}
	}
}

func TestCommit_IsRepeatedAfterAStatementTimeout(t *testing.T) {
	t.Parallel()
	o, _ := alone(t, map[string]string{"statement_timeout": "200"})
	s := o.session(t, "a")
	o.enqueue(t)
	d := claim(t, s)
	blocker, err := pgx.Connect(t.Context(), o.url)
	if err != nil {
		t.Fatal(err)
	}
	defer blocker.Close(t.Context())
	if _, err := blocker.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := blocker.Exec(t.Context(), "SELECT FROM oarlock.runs WHERE run_id = $1 FOR UPDATE", d.claim.Run); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- d.toEnd(t.Context()) }()
	o.waitFor(t, "SELECT (SELECT count(*) FROM pg_locks WHERE NOT granted) > 0")
	o.waitFor(t, "SELECT (SELECT count(*) FROM pg_locks WHERE NOT granted) = 0") // it timed out
	if _, err := blocker.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("a drive across a statement timeout: %v", err)
	}
	o.finishAll(t, s, 1)
}

func (o outside) waitFor(t *testing.T, question string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); o.text(t, "SELECT ("+question+")::text") != "true"; {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", question)
		}
	}
}

func TestSession_SurvivesAFullDisk(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a server")
	}
	folder := pgcluster.SmallDisk(t, 400<<20)
	node := pgcluster.StartIn(t, folder, map[string]string{"max_wal_size": "64MB", "wal_keep_size": "0"})
	o := open(t, node)
	s := o.session(t, "a")
	const runs = 200
	for range runs {
		o.enqueue(t)
	}
	d := claim(t, s)
	d.starts(t)
	remove := pgcluster.Fill(t, folder)
	full := errors.New("not full")
	for end := time.Now().Add(time.Minute); pglink.Classify(full) == pglink.Permanent && time.Now().Before(end); {
		_, full = o.EnqueueMany(t.Context(), queue.Bulk{DAG: "two", Params: make([]any, 10_000)})
		if full == nil {
			full = errors.New("not full")
		}
	}
	if class := pglink.Classify(full); class == pglink.Permanent {
		t.Fatalf("the disk does not get full: %v", full)
	}
	remove()
	if !node.Answers(t) { // Postgres stops when there is no room for its log
		node.Crash(t)
		node.Start(t)
	}
	if err := s.Release(t.Context(), d.claim, false, 0); err != nil {
		t.Fatal(err)
	}
	o.exec(t, "DELETE FROM oarlock.runs WHERE run_id > $1", runs+1)
	o.finishAll(t, s, runs)
}
