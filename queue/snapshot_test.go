package queue_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// The runs of one call have the same run_at, and still stand one after the other.
func TestScale_DeadEntriesOfOneMoment(t *testing.T) {
	t.Parallel()
	c := &crowdedBundle{sessionBundle: newSessionBundle(t), n: smallScale}
	if queue.Nightly() {
		c.n = bulkScale
	}
	c.exec(t, "SET jit = off")
	c.exec(t, "ALTER TABLE oarlock.runs SET UNLOGGED")
	c.exec(t, "ALTER TABLE oarlock.runs SET (autovacuum_enabled = off)")
	c.ask(t, "plain", c.n)
	c.underASnapshot(t, c.register(t), c.n-100, 20)
}

// Runs that several calls request for the same moment stand one after the other too.
func TestScale_DeadEntriesOfOneFutureMoment(t *testing.T) {
	t.Parallel()
	c := &crowdedBundle{sessionBundle: newSessionBundle(t), n: 3 * tinyScale}
	c.exec(t, "SET jit = off")
	c.exec(t, "ALTER TABLE oarlock.runs SET UNLOGGED")
	c.exec(t, "ALTER TABLE oarlock.runs SET (autovacuum_enabled = off)")
	const at = "date_trunc('hour', now() + interval '2 hours')"
	c.exec(t, "SELECT oarlock.enqueue('plain', run_at => "+at+") FROM generate_series(1, $1)", c.n/3)
	c.exec(t, "SELECT oarlock.enqueue('plain', run_at => "+at+", labels => $2) FROM generate_series(1, $1)", c.n/3, map[string]string{"long": strings.Repeat("x", 100)})
	c.exec(t, "SELECT oarlock.enqueue_many('plain', array_fill('{}'::jsonb, ARRAY[10]), run_at => "+at+") FROM generate_series(1, $1)", c.n/30)
	c.exec(t, "UPDATE oarlock.runs SET run_at = run_at - interval '3 hours', ready_at = ready_at - interval '3 hours'")
	c.exec(t, "VACUUM ANALYZE oarlock.runs")
	c.underASnapshot(t, c.register(t), c.n-100, 20)
}

// Retried runs of one call stand one after the other again.
func TestScale_DeadEntriesOfRetriedRuns(t *testing.T) {
	t.Parallel()
	c := &crowdedBundle{sessionBundle: newSessionBundle(t), n: 2 * tinyScale}
	c.exec(t, "SET jit = off")
	c.exec(t, "ALTER TABLE oarlock.runs SET UNLOGGED")
	c.exec(t, "ALTER TABLE oarlock.runs SET (autovacuum_enabled = off)")
	c.ask(t, "plain", c.n)
	c.exec(t, "UPDATE oarlock.runs SET run_at = run_at - interval '1 hour', ready_at = ready_at - interval '1 hour'")
	c.exec(t, "UPDATE oarlock.runs SET state = 'failed', epoch = 1, started_at = now(), finished_at = now()")
	c.exec(t, "SELECT oarlock.retry(r.run_id) FROM oarlock.runs r ORDER BY r.run_id")
	c.exec(t, "VACUUM ANALYZE oarlock.runs")
	c.underASnapshot(t, c.register(t), c.n-100, 20)
}

// underASnapshot leaves the first runs of the lane dead so that no vacuum may clean them up, after they went through every index
// that a poll, a look and a renewal use. A poll reads at most so many buffers to lock five runs.
func (c *crowdedBundle) underASnapshot(t *testing.T, s *queue.Session, dead, most int) {
	t.Helper()
	before := c.cost(t, s, dead)
	old, err := c.db.Conn(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := old.Exec(t.Context(), "SELECT FROM oarlock.runs LIMIT 1"); err != nil {
		t.Fatal(err)
	}
	c.exec(t, `CREATE TEMP TABLE dead AS SELECT r.run_id, row_number() OVER (ORDER BY r.ready_at, r.run_id) AS n FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id)
		WHERE r.state = 'queued' AND l.queue = 'default' ORDER BY 2 LIMIT $1`, dead)
	for _, step := range []struct {
		part   int // of them
		change string
	}{
		{1, "state = 'running', worker_id = '" + s.ID().String() + "', claim_id = gen_random_uuid(), epoch = epoch + 1, started_at = now()"},
		{10, "state = 'waiting', worker_id = NULL, claim_id = NULL, wake_at = now() - interval '1 hour'"},
		{10, "state = 'queued', stage = 0, wake_at = NULL, queue_deadline = now() - interval '1 hour'"},
		{1, "state = 'succeeded', worker_id = NULL, claim_id = NULL, queue_deadline = NULL, finished_at = now()"},
	} {
		c.exec(t, "UPDATE oarlock.runs SET "+step.change+" WHERE run_id IN (SELECT d.run_id FROM dead d WHERE d.n % $1 = 0)", step.part)
	}
	c.exec(t, "DROP TABLE dead")
	calm(t, s) // passes the dead rows
	c.atMost(t, s, 5, most)
	poll(t, s, 5)
	c.atMost(t, s, 5, most)
	if n := lockingSelect(t, s, 5, false); n <= most {
		t.Errorf("without cursors it reads %d buffers: the dead are not in the way", n)
	}
	look(t, s) // passes them too
	after := c.cost(t, s, dead)
	if after.poll > before.poll+60 || after.renewal > before.renewal+100 || after.look > before.look+60 { // it holds ten runs now
		t.Errorf("with %d dead the buffers read are %+v, and were %+v", dead, after, before)
	}
	if swept := c.reads(t, s.SweepStatement, s); swept <= after.poll+after.renewal {
		t.Errorf("a sweep reads %d buffers: the dead are not in the way", swept)
	}
}

// cost is how many buffers the statements read that are sent all the time.
type cost struct{ poll, look, renewal int }

func (c *crowdedBundle) cost(t *testing.T, s *queue.Session, dead int) cost {
	t.Helper()
	of := cost{
		poll: c.reads(t, func() (string, pgx.StrictNamedArgs) { return s.ClaimStatement(queue.Want{Slots: 5, Free: 5}) }, s),
		look: c.reads(t, func() (string, pgx.StrictNamedArgs) { return s.LookStatement(queue.Load{}) }, s), renewal: c.reads(t, s.RenewStatement, s),
	}
	t.Logf("%d dead: buffers read are %+v", dead, of)
	return of
}

// reads returns how many buffers a statement reads.
func (c *crowdedBundle) reads(t *testing.T, of func() (string, pgx.StrictNamedArgs), s *queue.Session) (n int) {
	t.Helper()
	statement, args := of()
	err := s.OnClaims(t.Context(), func(_ context.Context, conn *pgx.Conn) error {
		n = explain(t, conn, statement, args).Buffers()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
