package queue_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

// crowdedBundle is a fleet with n queued and n finished runs in one lane that its workers may serve. There are further lanes: empty
// ones with a higher priority, and one full of runs that no worker may serve.
type crowdedBundle struct {
	*sessionBundle
	n      int
	others int // runs in the lane that no worker may serve
}

const (
	tinyScale   = 1_000
	pausedScale = 5_000
	smallScale  = 20_000
	largeScale  = 1_000_000 // nightly
	bulkScale   = 100_000   // nightly; the most of one call
	betterLanes = 5
)

func newCrowded(tb testing.TB, n int) *crowdedBundle {
	tb.Helper()
	c := &crowdedBundle{sessionBundle: newSessionBundle(tb), n: n, others: n / 10}
	c.put(tb, "name: gpu\nqueue: far\nworker_selector: {gpu: \"1\"}\nsteps: [{id: a, run: \"true\"}]\n")
	for i := range betterLanes {
		c.put(tb, fmt.Sprintf("name: better%d\nqueue: better\npriority: %d\nsteps: [{id: a, run: \"true\"}]\n", i, 10+i))
	}
	c.exec(tb, "SET jit = off")
	c.exec(tb, "ALTER TABLE oarlock.runs SET UNLOGGED")                   // filled sooner; a statement reads the same
	c.exec(tb, "ALTER TABLE oarlock.runs SET (autovacuum_enabled = off)") // otherwise the reads depend on when a vacuum comes
	c.fill(tb, "plain", "queued", n)
	c.fill(tb, "plain", "succeeded", n)
	c.fill(tb, "gpu", "queued", c.others)
	c.exec(tb, "ANALYZE oarlock.runs")
	return c
}

// fill enters runs of a DAG, a millisecond apart, all of them due.
func (c *crowdedBundle) fill(tb testing.TB, dag, state string, n int) {
	tb.Helper()
	c.exec(tb, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, ready_at, logical_at, trigger, root_id, submitted_by, created_at, finished_at)
		SELECT v.dag_id, v.version, v.lane_id, $2, at, at, at, 'sql', 0, 'x', at, CASE WHEN $2 <> 'queued' THEN at END
		  FROM oarlock.dags d JOIN oarlock.dag_versions v USING (dag_id),
		       (SELECT clock_timestamp() - interval '1 day' + i * interval '1 ms' AS at FROM generate_series(1, $3) i) x
		 WHERE d.name = $1`, dag, state, n)
}

// explain returns how a statement runs that was prepared as the driver prepares it, and rolls it back.
func explain(tb testing.TB, conn *pgx.Conn, statement string, named pgx.StrictNamedArgs) *pgtest.Plan {
	tb.Helper()
	tx, err := conn.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) }()
	text, args, err := named.RewriteQuery(tb.Context(), conn, statement, nil)
	if err != nil {
		tb.Fatal(err)
	}
	prepared, err := conn.Prepare(tb.Context(), "shown", text)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Deallocate(context.WithoutCancel(tb.Context()), "shown") }()
	literals := make([]string, len(args))
	for i, arg := range args {
		literals[i] = literal(tb, conn, prepared.ParamOIDs[i], arg)
	}
	var out []byte
	execute := "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE shown"
	if len(literals) > 0 {
		execute += " (" + strings.Join(literals, ", ") + ")"
	}
	if err := tx.QueryRow(tb.Context(), execute).Scan(&out); err != nil {
		tb.Fatal(err)
	}
	return pgtest.Explained(tb, out)
}

// literal returns an argument as text.
func literal(tb testing.TB, conn *pgx.Conn, oid uint32, arg any) string {
	tb.Helper()
	text, err := conn.TypeMap().Encode(oid, pgtype.TextFormatCode, arg, []byte{}) // nil is returned for NULL alone
	if err != nil {
		tb.Fatal(err)
	}
	if text == nil {
		return "NULL"
	}
	return "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
}

// lockingSelect returns the query of a session's next poll that locks the runs to claim. Without cursors it begins at the very
// start.
func lockingSelect(tb testing.TB, s *queue.Session, want int, cursors bool) int {
	tb.Helper()
	statement, args := s.ClaimStatement(queue.Want{Slots: want, Free: want})
	if !cursors {
		args["shelves"], args["cursors"], args["rest"] = []int64{}, []time.Time{}, time.Unix(0, 0)
	}
	n := 0
	err := s.OnClaims(tb.Context(), func(_ context.Context, conn *pgx.Conn) error {
		explain(tb, conn, statement, args).Walk(func(q *pgtest.Plan) {
			if q.Name == "CTE picked" {
				q.Walk(func(p *pgtest.Plan) { n += locked(tb, p) })
			}
		})
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// locked counts the buffers of the plan node that locks runs.
func locked(tb testing.TB, p *pgtest.Plan) int {
	if p.Node != "LockRows" {
		return 0
	}
	if scan := p.Find("Index Scan"); scan == nil || scan.Index != "runs_queued" {
		tb.Errorf("a claim does not go by runs_queued: %+v", p)
	}
	return p.Buffers()
}

func TestScale_ReadsNoMoreThanItClaims(t *testing.T) {
	t.Parallel()
	n := smallScale
	if queue.Nightly() {
		n = largeScale
	}
	newCrowded(t, n).promises(t)
}

// Plans do not depend on the number of runs.
func TestScale_Tiny(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, tinyScale)
	c.plans(t)
	c.functionPlans(t)
}

// promises run one after the other, because each takes runs from the lane.
func (c *crowdedBundle) promises(t *testing.T) {
	t.Helper()
	one := func(w *queue.Worker) { w.Queues = []string{"default"} }
	t.Run("OneLane", func(t *testing.T) {
		s := calm(t, c.register(t, one))
		poll(t, s, 5)
		c.atMost(t, s, 5, 20)
		c.atMost(t, s, 100, 20+2*95)
	})
	t.Run("FurtherLanes", func(t *testing.T) {
		s := calm(t, c.register(t))
		poll(t, s, 5)
		c.atMost(t, s, 5, 20+12*betterLanes)
	})
	t.Run("DeadEntriesUnderAnOldSnapshot", func(t *testing.T) {
		c.underASnapshot(t, calm(t, c.register(t, one)), c.n/10, 20)
	})
	t.Run("GivenBackUnderAnOldSnapshot", func(t *testing.T) {
		c.givenBack(t, calm(t, c.register(t, one)), calm(t, c.register(t, one)))
	})
	t.Run("RequeuedBelowTheFloor", func(t *testing.T) {
		s, dead := calm(t, c.register(t, one)), calm(t, c.register(t, one))
		lost := poll(t, dead, 1).Claims[0]
		poll(t, s, 5)
		c.register(t, one, func(w *queue.Worker) { w.Replaces = append(w.Replaces, dead.ID()) })
		p := poll(t, s, 1)
		if len(p.Claims) != 1 || p.Claims[0].Run != lost.Run {
			t.Errorf("claimed %v, want %d", runsOf(p.Claims), lost.Run)
		}
		poll(t, s, 5)
		c.atMost(t, s, 5, 20)
	})
	t.Run("Plans", c.plans)
	t.Run("FunctionPlans", c.functionPlans)
}

// givenBack makes a worker claim, end, and give back one run a second, while a transaction holds an old snapshot: dead rows are
// not cleaned up. Each second another worker finds the run that was given back.
func (c *crowdedBundle) givenBack(t *testing.T, s, other *queue.Session) {
	t.Helper()
	old, err := c.db.Conn(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := old.Exec(t.Context(), "SELECT FROM oarlock.runs LIMIT 1"); err != nil {
		t.Fatal(err)
	}
	const second, rounds = 40, 24
	const end = "UPDATE oarlock.runs SET state = 'succeeded', worker_id = NULL, claim_id = NULL, finished_at = now() WHERE worker_id = $1"
	for range rounds {
		claims := poll(t, other, second).Claims
		if len(claims) != second {
			t.Fatalf("claimed %d", len(claims))
		}
		if err := other.Release(t.Context(), claims[second/2], true, 0); err != nil {
			t.Fatal(err)
		}
		c.exec(t, end, other.ID())
		c.atMost(t, s, 5, 20+second*12/25) // of half a second, in which there are at most a dozen rounds
		if p := poll(t, s, 1); len(p.Claims) != 1 || p.Claims[0].Run != claims[second/2].Run {
			t.Fatalf("claimed %v, want %d", runsOf(p.Claims), claims[second/2].Run)
		}
		c.exec(t, end, s.ID())
	}
}

// calm returns a session that has swept everything.
func calm(t *testing.T, s *queue.Session) *queue.Session {
	t.Helper()
	sweep(t, s)
	return s
}

func (c *crowdedBundle) atMost(t *testing.T, s *queue.Session, want, limit int) {
	t.Helper()
	n := lockingSelect(t, s, want, true)
	t.Logf("%d queued: %d buffers to lock %d", c.n, n, want)
	if n > limit {
		t.Errorf("reads %d buffers to lock %d, at most %d", n, want, limit)
	}
}

// A worker that starts before anything is queued keeps the plan of its first poll. It must not go through the queue to find
// the runs that it has locked.
func TestScale_AClaimIsByKeyWhenItIsPlannedOnAnEmptyTable(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	err := s.OnClaims(t.Context(), func(_ context.Context, conn *pgx.Conn) error {
		statement, args := s.ClaimStatement(queue.Want{Slots: 5, Free: 5})
		update := explain(t, conn, statement, args).Find("ModifyTable")
		var by []string
		update.Walk(func(p *pgtest.Plan) {
			if p.Relation == "runs" && p.Index != "" {
				by = append(by, p.Index)
			}
		})
		if !slices.Equal(by, []string{"runs_pkey"}) {
			t.Errorf("runs are claimed by %v, want runs_pkey alone", by)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A place in the queue is counted only as far as it is shown, however many runs stand before it, in however many lanes.
func TestScale_APlaceInLineIsNotCountedOut(t *testing.T) {
	t.Parallel()
	c := &crowdedBundle{sessionBundle: newSessionBundle(t), n: pausedScale}
	c.exec(t, "SET jit = off")
	c.put(t, "name: held\nsteps: [{id: a, run: \"true\"}]\n")
	c.put(t, "name: capped\nmax_active_runs: 1000\nsteps: [{id: a, run: \"true\"}]\n")
	c.fill(t, "held", "queued", c.n)
	c.fill(t, "capped", "queued", c.n)
	c.fill(t, "plain", "queued", c.n)
	c.register(t)
	run := int64(c.ask(t, "plain", 1)[0])
	c.exec(t, "VACUUM ANALYZE oarlock.runs")
	for _, change := range []string{"SELECT", "SELECT oarlock.set_dag('held', paused => true)"} { // its runs stay where they are until a worker moves them
		c.exec(t, change)
		c.exec(t, "SELECT oarlock.run_status($1)", run) // the first call reads the catalog
		if n := explain(t, c.conn, "SELECT oarlock.run_status(@run)", pgx.StrictNamedArgs{"run": run}).Buffers(); n > 300 {
			t.Errorf("after %s it reads %d buffers", change, n)
		} else {
			t.Logf("after %s it reads %d buffers", change, n)
		}
	}
}

// Which other workers serve a lane is looked up only if a run of the lane waits for a slot.
func TestScale_ALookAsksOfStalledLanes(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 1)
	s := calm(t, f.register(t))
	f.register(t)
	err := s.OnReads(t.Context(), func(_ context.Context, conn *pgx.Conn) error {
		own := 0 // buffers for what the worker itself offers
		for _, lanes := range [][]int{nil, {f.lane(t)}} {
			statement, args := s.LookStatement(queue.Load{Lanes: lanes})
			read := 0
			explain(t, conn, statement, args).Walk(func(p *pgtest.Plan) {
				if p.Relation == "worker_offers" {
					read += p.Hit + p.Read
				}
			})
			if lanes == nil {
				own = read
			} else if read <= own {
				t.Errorf("where a run waits it reads %d buffers of what workers offer, and %d where none does", read, own)
			}
			if own > 2 {
				t.Errorf("where no run waits it reads %d buffers of what workers offer", own)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A login can make more than a thousand lanes, and they stay until their runs are over. Each lane costs a look, a sweep and a claim one index
// probe per shelf, and nothing else: its row, its queue and its DAG are not looked up one by one.
func TestScale_AnEmptyLaneCostsItsProbes(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 1)
	few := f.idleBuffers(t)
	const more = 1210
	f.exec(t, `INSERT INTO oarlock.lanes (queue, priority, selector, needs, slots, made_for, twin)
		SELECT l.queue, n % 200 - 100, l.selector, l.needs, l.slots, l.made_for, n FROM oarlock.lanes l, generate_series(1, $2) n WHERE l.lane_id = $1`, f.lane(t), more)
	f.exec(t, "ANALYZE oarlock.lanes")
	many := f.idleBuffers(t)
	for call, probe := range map[string]int{"look": 1, "sweep": 1, "claim": 2} { // buffers, of an index of one page
		t.Logf("a %s reads %d buffers, and %d with %d lanes more", call, few[call], many[call], more)
		if limit := few[call] + 3*probe*more + more/10; many[call] > limit {
			t.Errorf("a %s reads %d buffers, at most %d", call, many[call], limit)
		}
	}
}

// idleBuffers returns how many buffers the calls of an idle worker read.
func (f *sessionBundle) idleBuffers(t *testing.T) map[string]int {
	t.Helper()
	s := calm(t, f.register(t))
	turn(t, s, 1)
	return buffersOf(t, s)
}

// buffersOf returns how many buffers the next calls of a session read.
func buffersOf(t *testing.T, s *queue.Session) map[string]int {
	t.Helper()
	read := map[string]int{}
	err := s.OnReads(t.Context(), func(_ context.Context, conn *pgx.Conn) error {
		look, args := s.LookStatement(queue.Load{})
		read["look"] = explain(t, conn, look, args).Buffers()
		sweep, args := s.SweepStatement()
		read["sweep"] = explain(t, conn, sweep, args).Buffers()
		claim, args := s.ClaimStatement(queue.Want{Slots: 5, Free: 5})
		plan := explain(t, conn, claim, args)
		read["claim"] = plan.Buffers()
		plan.Walk(func(p *pgtest.Plan) {
			if p.Name == "CTE picked" { // the writing part reads it, and the plan's total does not count it
				read["claim"] += p.Buffers()
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// Any login that enqueues can raise the number of the next lane, because each enqueue that is rolled back takes one.
func TestScale_AHighLaneNumberCostsNoMore(t *testing.T) {
	t.Parallel()
	const high = 800_000_001 // its shelves have no int as a number
	for _, limit := range []int{0, 1000} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			t.Parallel()
			read := map[int]map[string]int{}
			for _, lane := range []int{1, high} {
				f := newSessionBundle(t)
				f.exec(t, "SELECT oarlock.set_queue('default', max_running => $1)", limit)
				f.exec(t, "SELECT setval(pg_get_serial_sequence('oarlock.lanes', 'lane_id'), $1, false)", lane)
				f.ask(t, "plain", 1)
				s := calm(t, f.register(t))
				_, args := s.LimitedStatement(queue.Want{Slots: 1})
				if shelves, ok := args["shelves"].([]int); !ok || len(shelves) != 1 {
					t.Errorf("lane %d: a claim sends the shelves %v, want the one with the run", lane, args["shelves"])
				}
				if read[lane] = buffersOf(t, s); len(turn(t, s, 1).Claims) != 1 {
					t.Errorf("lane %d: the run is not claimed", lane)
				}
			}
			for call, few := range read[1] {
				t.Logf("a %s reads %d buffers, and %d if the lane has a high number", call, few, read[high][call])
				if read[high][call] > few+5 {
					t.Errorf("a %s reads %d buffers if the lane has a high number, and %d if it has a low one", call, read[high][call], few)
				}
			}
		})
	}
}

func TestScale_APausedQueueIsNotReadThrough(t *testing.T) {
	t.Parallel()
	c := &crowdedBundle{sessionBundle: newSessionBundle(t), n: pausedScale}
	c.exec(t, "SET jit = off")
	c.ask(t, "plain", c.n)
	s := calm(t, c.register(t))
	begun := c.beginOne(t, s)
	c.exec(t, "SELECT oarlock.set_queue('default', paused => true)")
	if n := lockingSelect(t, s, 5, false); n > 20 {
		t.Errorf("reads %d buffers to lock 5, at most 20", n)
	}
	if p := poll(t, s, 5); !slices.Equal(runsOf(p.Claims), []queue.RunID{begun}) {
		t.Errorf("claimed %v, want %d", runsOf(p.Claims), begun)
	}
}

func TestScale_RunsOfAPausedDAGStandInNobodysWay(t *testing.T) {
	t.Parallel()
	c := &crowdedBundle{sessionBundle: newSessionBundle(t), n: pausedScale}
	c.exec(t, "SET jit = off")
	c.put(t, "name: held\nsteps: [{id: a, run: \"true\"}]\n")
	held := c.ask(t, "held", c.n)
	s := calm(t, c.register(t))
	begun := c.beginOne(t, s)
	c.ask(t, "plain", 20)
	c.exec(t, "SELECT oarlock.set_dag('held', paused => true)")
	more := c.ask(t, "held", 10)
	claimed := c.claimAll(t, s, 1) // moves them aside, and passes the rows that they leave dead
	if len(claimed) != 21 || !slices.Contains(runsOf(claimed), begun) {
		t.Errorf("claimed %v, want 21, %d among them", runsOf(claimed), begun)
	}
	c.ask(t, "plain", 20)
	await.True(t, "locking 5 runs of two lanes reads at most 32 buffers", func() bool {
		c.exec(t, "VACUUM oarlock.runs") // as the server does by itself after so many dead rows; a look under way keeps them
		n := lockingSelect(t, s, 5, false)
		t.Logf("%d held: %d buffers to lock 5", c.n, n)
		return n <= 20+12
	})
	c.exec(t, "SELECT oarlock.set_dag('held', paused => false)")
	claimed = c.claimAll(t, s, 100)
	held = append(held, more...)
	if got := byDAG(claimed); got["held"] != len(held)-1 || got["plain"] != 20 {
		t.Errorf("claimed %v, want %d held", got, len(held)-1)
	}
}

// claimAll makes turns until several found nothing, and gives the claims back.
func (c *crowdedBundle) claimAll(t *testing.T, s *queue.Session, want int) (all []*queue.Claim) {
	t.Helper()
	for vain := 0; vain < 3; {
		claims := turn(t, s, want*10).Claims
		if len(claims) == 0 {
			vain++
		}
		all = append(all, claims...)
	}
	return all
}

func byDAG(claims []*queue.Claim) map[string]int {
	n := map[string]int{}
	for _, c := range claims {
		n[c.DAG]++
	}
	return n
}

// beginOne makes a run begin and go back to the queue, behind all others.
func (c *crowdedBundle) beginOne(t *testing.T, s *queue.Session) queue.RunID {
	t.Helper()
	claim := poll(t, s, 1).Claims[0]
	c.exec(t, `UPDATE oarlock.runs SET state = 'queued', claim_id = NULL, worker_id = NULL, started_at = clock_timestamp(), stage = 1, ready_at = clock_timestamp()
		WHERE run_id = $1`, claim.Run)
	return claim.Run
}

// The plans of the statements that are sent all the time use the right indexes, however many runs there are.
func (c *crowdedBundle) plans(t *testing.T) {
	s := calm(t, c.register(t))
	claims := poll(t, s, 50).Claims
	c.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, log_day)
		SELECT run_id, step, 'running', 1, 1, 1, 1, '2026-11-20' FROM (SELECT run_id FROM oarlock.runs LIMIT $1) r, generate_series(0, 1) step`, min(c.n/4, smallScale))
	c.exec(t, `INSERT INTO oarlock.controls (run_id, verb, by, decided_at, outcome)
		SELECT run_id, 'pause', 'x', CASE WHEN run_id % 2 = 0 THEN clock_timestamp() END, CASE WHEN run_id % 2 = 0 THEN 'applied' END
		  FROM (SELECT run_id FROM oarlock.runs LIMIT $1) r`, min(c.n/4, smallScale))
	c.exec(t, "ANALYZE oarlock.tasks, oarlock.controls")
	var runs []int64
	var ids []uuid.UUID
	for _, c := range claims {
		runs, ids = append(runs, int64(c.Run)), append(ids, c.ID)
	}
	claim, args := s.ClaimStatement(queue.Want{Slots: 10, Free: 10})
	renew, renewArgs := s.RenewStatement()
	least := -1
	idle, idleArgs := s.ClaimStatement(queue.Want{Idle: 64, Least: &least})
	look, lookArgs := s.LookStatement(queue.Load{})
	sweep, sweepArgs := s.SweepStatement()
	limited, limitedArgs := s.LimitedStatement(queue.Want{Slots: 10, Free: 10})
	names := pgx.StrictNamedArgs{"runs": runs, "claims": ids, "bytes": 1 << 24}
	shown := new(strings.Builder)
	onClaims, onReads := s.OnClaims, s.OnReads
	for _, st := range []struct {
		name, text string
		on         func(context.Context, func(context.Context, *pgx.Conn) error) error
		args       pgx.StrictNamedArgs
	}{
		{"claim", claim, onClaims, args},
		{"claim idle", idle, onClaims, idleArgs},
		{"claim_limited", limited, onClaims, limitedArgs},
		{"renew", renew, onReads, renewArgs},
		{"look", look, onReads, lookArgs},
		{"sweep", sweep, onReads, sweepArgs},
		{"mail", sql.Named("queue/mail"), onReads, names},
		{"load_tasks", sql.Named("queue/load_tasks"), onReads, names},
		{"requeue", sql.Named("queue/requeue"), onClaims, pgx.StrictNamedArgs{"worker": s.ID(), "batch": 1000}},
		{"release all", queue.ReleaseStatement(true), onClaims, pgx.StrictNamedArgs{"worker": s.ID(), "batch": 1000}},
		{"due", sql.Named("queue/due"), onReads, pgx.StrictNamedArgs{"queue": "default", "rows": 20}},
		{"held", sql.Named("queue/held"), onReads, pgx.StrictNamedArgs{"worker": s.ID(), "rows": 20}},
		{"release some", queue.ReleaseStatement(false), onClaims, pgx.StrictNamedArgs{"worker": s.ID(), "runs": runs, "claims": ids, "batch": 1000}},
	} {
		err := st.on(t.Context(), func(_ context.Context, conn *pgx.Conn) error {
			p := explain(t, conn, st.text, st.args)
			fmt.Fprintf(shown, "%s\n%s", st.name, scans(p))
			if n, most := p.Buffers(), 100+60*len(claims); n > most && st.name != "sweep" { // it passes the rows that an earlier test left dead
				t.Errorf("%s reads %d buffers for %d claims of %d runs, at most %d", st.name, n, len(claims), 2*c.n, most)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "testdata/plans.txt", shown.String())
}

// scans returns how a plan reaches the tables that grow.
func scans(p *pgtest.Plan) string {
	var lines []string
	p.Walk(func(q *pgtest.Plan) {
		if big := []string{"runs", "run_keys", "tasks", "controls"}; slices.Contains(big, q.Relation) && strings.HasSuffix(q.Node, "Scan") || q.Node == "Bitmap Index Scan" {
			lines = append(lines, fmt.Sprintf("  %s: %s %s\n", q.Relation, strings.ToLower(q.Node), q.Index))
		}
	})
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "")
}

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s is not what is made (-rewrite writes it): %s", path, diff)
	}
}
