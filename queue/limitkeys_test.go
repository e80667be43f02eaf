package queue_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// tenants is a DAG that limits the runs of each tenant to two.
const tenants = "name: tenants\nparams: [{name: tenant, required: true}]\nconcurrency: {key: '${params.tenant}', limit: 2}\nsteps: [{id: a, run: \"true\"}]\n"

// askTenant enqueues n runs of one tenant.
func (f *sessionBundle) askTenant(tb testing.TB, tenant string, n int) {
	tb.Helper()
	f.exec(tb, "SELECT oarlock.enqueue_many('tenants', array_fill(jsonb_build_object('tenant', $1::text), ARRAY[$2::int]))", tenant, n)
}

// counted is the most runs that any tenant has under way.
const counted = `SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM oarlock.runs
	WHERE worker_id IS NOT NULL OR started_at IS NOT NULL AND finished_at IS NULL GROUP BY limit_keys) x`

func TestLimits_AKeyIsNeverExceeded(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, tenants)
	for _, tenant := range []string{"a", "b", "c"} {
		f.askTenant(t, tenant, 40)
	}
	c := crowd{sessionBundle: f, audit: counted, give: finishClaim}
	if most := c.work(t, 120); most > 2 || most < 2 {
		t.Errorf("a tenant has %d runs at once, the limit is 2", most)
	}
	f.wantStates(t, "succeeded:120")
}

// Runs of a key come and go while others retry and lose them: the limit holds, and all end.
func TestLimits_AKeyIsNeverExceededByLossesAndRetries(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, tenants)
	for _, tenant := range []string{"a", "b", "c"} {
		f.askTenant(t, tenant, 20)
	}
	f.exec(t, giveBack)
	c := crowd{sessionBundle: f, audit: counted, give: "SELECT public.give_back($1)"}
	if most := c.work(t, 100); most > 2 {
		t.Errorf("a tenant has %d runs at once, the limit is 2", most)
	}
	f.wantStates(t, "succeeded:60")
}

// giveBack makes a function that ends a claim. Of the claims of new runs, a third is lost and comes back begun, and a third fails and
// is retried.
const giveBack = `CREATE FUNCTION public.give_back(claim uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r oarlock.runs;
BEGIN
    r := (SELECT x FROM oarlock.runs x WHERE x.claim_id = claim);
    UPDATE oarlock.runs
       SET claim_id = NULL, worker_id = NULL, state = CASE WHEN r.epoch > 1 OR r.run_id % 3 = 2 THEN 'succeeded' WHEN r.run_id % 3 = 1 THEN 'failed' ELSE 'queued' END,
           stage = CASE WHEN r.epoch = 1 AND r.run_id % 3 = 0 THEN 1 ELSE 2 END,
           finished_at = CASE WHEN r.epoch = 1 AND r.run_id % 3 = 0 THEN NULL ELSE clock_timestamp() END
     WHERE run_id = r.run_id;
    IF r.epoch = 1 AND r.run_id % 3 = 1 THEN
        r := (SELECT x FROM oarlock.runs x WHERE x.run_id = r.run_id);
        PERFORM oarlock.reopen(r);
    END IF;
END $$`

// A tenant with very many runs holds up none with one, and a key without room costs the same however many wait for it.
func TestLimits_ADeepKeyHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, tenants)
	deep := 20_000
	if queue.Nightly() {
		deep = 100_000
	}
	f.askTenant(t, "deep", deep)
	const others = 50
	for i := range others {
		f.askTenant(t, fmt.Sprint("small", i), 3)
	}
	f.exec(t, "ANALYZE oarlock.runs")
	s := f.register(t, func(w *queue.Worker) { w.Slots = 200 })
	begun := map[string]int{}
	for range 2 {
		for _, c := range poll(t, s, others).Claims {
			begun[string(c.Params)]++
		}
	}
	if len(begun) != others+1 {
		t.Errorf("after two polls runs of %d tenants have begun, not of %d", len(begun), others+1)
	}
	for range 2 {
		poll(t, s, 200)
	}
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.runs WHERE worker_id IS NOT NULL"); n != 2*(others+1) {
		t.Fatalf("%d runs are claimed, not two of each tenant", n)
	}
	limited, args := s.LimitedStatement(queue.Want{Slots: 200, Free: 200})
	err := s.OnClaims(t.Context(), func(_ context.Context, conn *pgx.Conn) error {
		explain(t, conn, limited, args) // compiles the plans of the functions
		if n, most := explain(t, conn, limited, args).Buffers(), 100+12*(others+1); n > most {
			t.Errorf("a claim of %d keys without room reads %d buffers, at most %d", others+1, n, most)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A worker that holds the row of the DAG holds up other claims of these lanes only.
func TestLimits_AKeyedLaneThatIsLockedIsPassedOver(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, tenants)
	f.askTenant(t, "a", 2)
	f.ask(t, "plain", 2)
	f.opened(t, "SELECT FROM oarlock.dags WHERE name = 'tenants' FOR NO KEY UPDATE")
	s := f.register(t)
	for _, c := range poll(t, s, 10).Claims {
		if c.DAG != "plain" {
			t.Errorf("claimed a run of %s", c.DAG)
		}
	}
}

// The reason of a run without room names the runs that have the places, and its own place.
func TestLimits_AReasonNamesTheRunsWithThePlaces(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, tenants)
	f.askTenant(t, "acme", 4)
	s := f.register(t)
	claims := poll(t, s, 10).Claims
	if len(claims) != 2 {
		t.Fatalf("%d claims", len(claims))
	}
	ids := value[[]queue.RunID](t, f.clientBundle, "SELECT array_agg(run_id ORDER BY run_id) FROM oarlock.runs WHERE worker_id IS NULL")
	want := fmt.Sprintf("waits for key acme of dag tenants: runs %d, %d have its 2 places; 2nd in line", claims[0].Run, claims[1].Run)
	if got := f.get(t, ids[1]).Reason; got != want {
		t.Errorf("reason %q, not %q", got, want)
	}
}

// A run of a key that an application holds in an open transaction holds up neither the others of its key nor other keys.
func TestLimits_ALockedRunHoldsUpNoOtherOfItsKey(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, tenants)
	f.askTenant(t, "acme", 4)
	f.opened(t, "SELECT FROM oarlock.runs WHERE run_id = (SELECT min(run_id) FROM oarlock.runs) FOR UPDATE")
	s := f.register(t)
	if n := len(poll(t, s, 10).Claims); n != 2 {
		t.Errorf("%d claims", n)
	}
}

// A number is one key, however its text is written.
func TestLimits_AKeyIsTheValueNotItsText(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: numbers\nparams: [{name: n, type: number, required: true}]\nconcurrency: {key: '${params.n}', limit: 1}\nsteps: [{id: a, run: \"true\"}]\n")
	f.exec(t, `SELECT oarlock.enqueue('numbers', p) FROM unnest(ARRAY['{"n": 7}', '{"n": 7.0}', '{"n": "7"}', '{"n": "07"}', '{"n": "+7"}', '{"n": 70e-1}', '{"n": 8}']::jsonb[]) p`)
	if n := len(poll(t, f.register(t), 10).Claims); n != 2 {
		t.Errorf("%d claims of the numbers 7 and 8", n)
	}
}
