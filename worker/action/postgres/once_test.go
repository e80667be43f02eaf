package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/action/postgres"
)

func TestOwn_CommitsWithTheOutcome(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	y.work(a, a)
	id := y.run(insert)
	if got := y.await(id); got != "succeeded" {
		t.Fatalf("the run is %s: %s", got, y.log.String())
	}
	y.wantRows(1)
	if !get[bool](y, "SELECT settled ->> 'attempt' = '1' AND settled -> 'outputs' = outputs AND outputs ->> 'row_count' = '1' FROM oarlock.tasks") {
		t.Error("it was not settled")
	}
	pgtest.CheckInvariants(t, y.conn)
}

// counted counts how often a step is executed.
func counted(a worker.Executor, n *atomic.Int32) execute {
	return func(ctx context.Context, task *worker.Task) dagrun.Result {
		n.Add(1)
		return a.Execute(ctx, task)
	}
}

func TestOwn_ALostReplyOfCommitIsReadBack(t *testing.T) {
	t.Parallel()
	atCommit := func(m netfault.Message) bool {
		return m.From == netfault.Client && m.Type == 'Q' && strings.HasPrefix(string(m.Body), "commit")
	}
	for name, c := range map[string]struct {
		fault netfault.Fault
		done  bool
	}{
		"done":               {netfault.Fault{When: netfault.Completed("COMMIT"), Do: netfault.Cut}, true},
		"never sent":         {netfault.Fault{When: atCommit, Do: netfault.Cut}, false},
		"half sent, and cut": {netfault.Fault{When: atCommit, Do: netfault.CutHalf}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			proxy, url := netfault.Through(t, y.tasks)
			a := y.action(through(url))
			var n atomic.Int32
			cut := proxy.Inject(c.fault)
			y.work(a, counted(a, &n))
			id := y.run(insert)
			got := y.await(id)
			cut.MustFire(t)
			if got != "succeeded" {
				t.Errorf("the run is %s: %s", got, y.log.String())
			}
			y.wantRows(1)
			if want := map[bool]int32{true: 1, false: 2}[c.done]; n.Load() != want {
				t.Errorf("executed %d times, want %d", n.Load(), want)
			}
		})
	}
}

// The COMMIT was done, its reply is lost, and the database stays away until the task must end. Every way of ending it may have the
// task begin again after a failure of another kind.
func TestOwn_RepeatsNoUnknownCommit(t *testing.T) {
	t.Parallel()
	now := make(chan struct{})
	close(now)
	for name, c := range map[string]struct {
		step string
		end  func(y *testBundle, w *hand, id queue.RunID) // asks the task to end
	}{
		"timed out": {"timeout: 1ms, ", func(*testBundle, *hand, queue.RunID) {}},
		"paused": {"", func(y *testBundle, _ *hand, id queue.RunID) {
			y.exec("SELECT oarlock.pause($1, 'a')", id)
		}},
		"given up": {"", func(_ *testBundle, w *hand, _ queue.RunID) { w.StopNow() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			proxy, url := netfault.Through(t, y.tasks)
			const slots = 2
			a := y.action(through(url), func(c *postgres.Config) { c.MaxOpen = slots })
			cut := proxy.Inject(netfault.Fault{When: netfault.Completed("COMMIT"), Do: netfault.Cut})
			var n atomic.Int32
			w := y.work(a, execute(func(ctx context.Context, task *worker.Task) dagrun.Result {
				n.Add(1)
				defer proxy.Refuse(false)
				hurried := *task
				hurried.Now = now
				hurried.Started = func() {}
				go func() {
					select {
					case <-cut.Fired():
						task.Started() // so that no timeout comes before the COMMIT
					case <-ctx.Done():
					}
				}()
				return a.Execute(ctx, &hurried)
			}), func(h *hand, _ *worker.Config) {
				h.settle = func(ctx context.Context, s *queue.Session, tx pgx.Tx, r queue.Settlement) error {
					proxy.Refuse(true)
					return s.SettleTx(ctx, tx, r)
				}
			})
			id := y.run("{id: a, " + c.step + "retry_policy: {limit: 1, interval: 1ms}, action: postgres.query, with: {sql: INSERT INTO ledger (key) VALUES (gen_random_uuid())}}")
			<-cut.Fired()
			c.end(y, w, id)
			other := y.action()
			y.work(other, counted(other, &n)) // begins what is to begin again
			y.eventually("the first attempt ends", func() bool {
				return get[bool](y, "SELECT state <> 'running' FROM oarlock.tasks")
			})
			y.exec("SELECT oarlock.resume($1, 'a')", id)
			got := y.await(id)
			if !strings.HasPrefix(got, "failed ") || !strings.Contains(got, "check whether the database has the changes") {
				t.Errorf("the run is %s: %s", got, y.log.String())
			}
			if n.Load() != 1 {
				t.Errorf("executed %d times", n.Load())
			}
			y.wantRows(1)
			y.held(a, slots)() // the budget has all its slots
		})
	}
}

// ends is how the attempts of a step that fails or waits ended, in order: kind and reason.
func (y *testBundle) ends() string {
	return get[string](y, "SELECT coalesce(string_agg(failure_kind || ' ' || reason, '; ' ORDER BY attempt), '') FROM oarlock.attempts")
}

func TestOwn_ABrokenAttemptIsLost(t *testing.T) {
	t.Parallel()
	const broken = "terminating connection due to administrator command (57P01)"
	for name, c := range map[string]struct {
		step string
		runs string // how it ends
		ends string
		rows int
	}{
		"and begins again": {"on_lost: retry", "succeeded", "lost lost: statement 2: " + broken, 1},
		"and fails":        {"on_lost: fail, retry_policy: {limit: 1, interval: 1ms}", "failed step a failed: lost: statement 2: " + broken, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			a := y.action()
			y.work(a, a)
			y.exec("SELECT pg_advisory_lock(1)")
			id := y.run("{id: a, " + c.step + ", action: postgres.query, with: {sql: [INSERT INTO ledger (key) VALUES ('a'), SELECT pg_advisory_xact_lock(1)]}}")
			y.eventually("it waits", func() bool { return y.waiting() == 1 })
			y.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'")
			y.exec("SELECT pg_advisory_unlock(1)")
			if got := y.await(id); got != c.runs {
				t.Errorf("the run is %s: %s", got, y.log.String())
			}
			if got := y.ends(); got != c.ends {
				t.Errorf("attempts: %s", got)
			}
			y.wantRows(c.rows)
		})
	}
}

// killsItself is SQL that ends its own session, in any database.
const killsItself = "SELECT pg_terminate_backend(pg_backend_pid())"

func TestOwn_AttemptsThatBreakItFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step string
		runs int32
	}{
		"as often as runs lose drives": {"with: {sql: " + killsItself + "}", 3},
		"read only":                    {"with: {read_only: true, sql: " + killsItself + "}", 3},
		"in a row, retries among them": {"retry_policy: {limit: 1, interval: 1ms}, with: {sql: " + killsItself + "}", 4},
		"elsewhere at once":            {"with: {connection: other, sql: " + killsItself + "}", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y, other := setup(t), pgtest.Empty(t)
			a := y.action(func(c *postgres.Config) { c.Connections["other"] = postgres.Connection{URL: other.URL} })
			var n atomic.Int32
			y.work(a, counted(a, &n))
			id := y.run("{id: a, action: postgres.query, "+c.step+"}", "max_drives: 3")
			if got := y.await(id); !strings.HasPrefix(got, "failed step a failed: ") || !strings.HasSuffix(got, "(57P01)") || strings.Contains(got, "lost") {
				t.Errorf("the run is %s: %s", got, y.log.String())
			}
			if n.Load() != c.runs {
				t.Errorf("executed %d times, want %d", n.Load(), c.runs)
			}
			if kind := get[string](y, "SELECT failure_kind FROM oarlock.tasks"); kind != "sql" {
				t.Errorf("it failed as %s", kind)
			}
		})
	}
}

func TestOwn_ACommitThatHangsIsEndedBeforeAnybodyAnswersForIt(t *testing.T) {
	t.Parallel()
	y := setup(t)
	proxy, url := netfault.Through(t, y.tasks)
	a := y.action(through(url))
	hangs, results := make(chan *netfault.Injected, 1), make(chan dagrun.Result, 1)
	var backend int // of the transaction that hangs
	y.work(a, execute(func(ctx context.Context, task *worker.Task) dagrun.Result {
		if task.Attempt > 1 {
			return a.Execute(ctx, task)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			<-(<-hangs).Fired()
			cancel() // the task is asked to end while the server still waits for the rest of the message and holds the run
		}()
		res := a.Execute(ctx, task)
		results <- res
		return res
	}), func(h *hand, _ *worker.Config) {
		h.settle = func(ctx context.Context, s *queue.Session, tx pgx.Tx, r queue.Settlement) error {
			if r.Attempt > 1 {
				return s.SettleTx(ctx, tx, r)
			}
			if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
				return err
			}
			err := s.SettleTx(ctx, tx, r)
			hangs <- proxy.Inject(netfault.Fault{When: netfault.OfType(netfault.Client, 'Q'), Do: netfault.HalfSent})
			return err
		}
	})
	id := y.run(insert)
	if res := <-results; !strings.Contains(res.Reason, "before COMMIT: the transaction was rolled back") || res.Kind != dagrun.KindLost {
		t.Errorf("%+v", res)
	}
	if n := get[int](y, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", backend)); n > 0 {
		t.Errorf("transaction of backend %d still hangs", backend)
	}
	if got := y.await(id); got != "succeeded" {
		t.Errorf("the run is %s: %s", got, y.log.String())
	}
	y.wantRows(1)
}

func TestOwn_WhatWasSettledIsNotRunAgainByTheNextDriver(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	committed, release := make(chan struct{}), make(chan struct{})
	first := y.work(a, execute(func(ctx context.Context, task *worker.Task) dagrun.Result {
		res := a.Execute(ctx, task)
		close(committed)
		<-release // the worker dies here: nothing is recorded
		return res
	}))
	id := y.run(insert)
	<-committed
	dead := <-first.ids
	t.Cleanup(func() { close(release) })
	var n atomic.Int32
	other := y.action()
	y.work(other, counted(other, &n), func(_ *hand, c *worker.Config) { c.Self.Replaces = []uuid.UUID{dead} })
	if got := y.await(id); got != "succeeded" || n.Load() != 0 {
		t.Errorf("the run is %s, executed %d times by the second", got, n.Load())
	}
	y.wantRows(1)
	if out := get[string](y, "SELECT outputs ->> 'row_count' FROM oarlock.tasks"); out != "1" {
		t.Errorf("outputs %s", out)
	}
}

func TestOwn_ALostLeaseRollsBack(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"no fence":       "DELETE FROM oarlock.fences WHERE channel = 'settle'",
		"claimed anew":   "UPDATE oarlock.runs SET claim_id = gen_random_uuid()",
		"a worker later": "UPDATE oarlock.runs SET worker_id = gen_random_uuid()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			a := y.action()
			results := make(chan dagrun.Result, 10)
			y.work(a, execute(func(ctx context.Context, task *worker.Task) dagrun.Result {
				res := a.Execute(ctx, task)
				results <- res
				return res
			}), func(h *hand, _ *worker.Config) {
				h.settle = func(ctx context.Context, s *queue.Session, tx pgx.Tx, r queue.Settlement) error {
					conn, err := pgx.Connect(ctx, y.db.URL)
					if err != nil {
						return err
					}
					defer conn.Close(ctx)
					if _, err := conn.Exec(ctx, spoil); err != nil {
						return err
					}
					return s.SettleTx(ctx, tx, r)
				}
			})
			y.run(insert)
			if res := <-results; res.Kind != dagrun.KindLost {
				t.Errorf("%+v", res)
			}
			y.wantRows(0)
			if !get[bool](y, "SELECT settled IS NULL AND state <> 'succeeded' FROM oarlock.tasks") {
				t.Error("it is recorded as done")
			}
		})
	}
}

func TestOwn_OneThatMayNotSettleSaysSoOnce(t *testing.T) {
	t.Parallel()
	for name, roles := range map[string][]string{"sees nothing": nil, "only reads": {"oarlock_read"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			a := y.action(through(y.login("app", roles...)))
			y.work(a, a)
			if got := y.await(y.run(insert)); got != "succeeded" {
				t.Errorf("the run is %s: %s", got, y.log.String())
			}
			if got := y.await(y.run(strings.Replace(insert, "[a]", "[b]", 1))); got != "succeeded" {
				t.Errorf("the run is %s: %s", got, y.log.String())
			}
			y.wantRows(2)
			if n := strings.Count(y.log.String(), "its role has no right to settle"); n != 1 {
				t.Errorf("said so %d times: %s", n, y.log.String())
			}
		})
	}
}

func TestOwn_AnotherDatabaseIsNot(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]func(testing.TB) *pgtest.DB{"empty": pgtest.Empty, "another installation": pgtest.New} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y, other := setup(t), elsewhere(t)
			a := y.action(func(c *postgres.Config) { c.Connections["other"] = postgres.Connection{URL: other.URL} })
			y.work(a, a)
			id := y.run("{id: a, action: postgres.query, with: {connection: other, sql: CREATE TABLE there AS SELECT 1 AS n}}")
			if got := y.await(id); got != "succeeded" {
				t.Errorf("the run is %s: %s", got, y.log.String())
			}
			if !get[bool](y, "SELECT settled IS NULL FROM oarlock.tasks") {
				t.Error("it was settled")
			}
		})
	}
}

func TestOwn_SettlesWhateverRoleAndTimeoutsTheStatementsChose(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	y.exec(fmt.Sprintf("CREATE ROLE plain_%s; GRANT plain_%[1]s TO CURRENT_USER; GRANT ALL ON ledger TO plain_%[1]s", y.db.Name))
	t.Cleanup(func() { y.exec(fmt.Sprintf("DROP OWNED BY plain_%s; DROP ROLE plain_%[1]s", y.db.Name)) })
	u, _, _ := strings.Cut(strings.TrimPrefix(y.tasks, "postgres://"), ":")
	y.exec(fmt.Sprintf("GRANT plain_%s TO %s", y.db.Name, u))
	y.work(a, a)
	id := y.run(fmt.Sprintf("{id: a, action: postgres.query, with: {sql: [SET ROLE plain_%s, SET lock_timeout = 1, INSERT INTO ledger (key) VALUES ('x')]}}", y.db.Name))
	if got := y.await(id); got != "succeeded" {
		t.Errorf("the run is %s: %s", got, y.log.String())
	}
	y.wantRows(1)
}

func TestOwn_ReadOnlyAndPublishesSettleNothing(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	y.work(a, a)
	id := y.run("{id: a, action: postgres.query, with: {sql: SELECT 1, read_only: true}, publish: {action: postgres.query, with: {sql: INSERT INTO ledger (key) VALUES ('p')}}}")
	if got := y.await(id); got != "succeeded" {
		t.Errorf("the run is %s: %s", got, y.log.String())
	}
	y.wantRows(1)
	if !get[bool](y, "SELECT settled IS NULL FROM oarlock.tasks") {
		t.Error("something was settled")
	}
}
