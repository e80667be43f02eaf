package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// buffers returns how many pages a call reads, functions that it calls included, and rolls it back.
func (c *caller) buffers(t *testing.T, wanted ...ticket) (pages int) {
	t.Helper()
	for range 2 { // the first call of a session also reads catalogs
		tx, err := c.conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var plan []byte
		err = tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+askSQL, pgx.QueryExecModeSimpleProtocol, c.id, c.call+1, jsonOf(t, wanted)).Scan(&plan)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}

		pages = pgtest.Explained(t, plan).Buffers()
	}
	return pages
}

// The cost of a call does not grow with what other pools have, and grows little with the waiters of its own.
func TestPermits_CostOfACall(t *testing.T) {
	t.Parallel()
	b := api(t)
	must(t, b.conn, "ALTER TABLE oarlock.permits SET (autovacuum_enabled = off)") // otherwise the reads depend on when a vacuum comes
	b.setPools(t, "'heavy', slots => 100", "'crm', slots => 1, per_key => true", "'other', slots => 1000000", "'total', slots => 1000000")
	one, crowd, others := b.caller(t, "one"), b.caller(t, "crowd"), b.caller(t, "others")
	one.wants(t, "1", want(1, "heavy"))
	crowd.try(t)
	others.try(t)
	const fill = `INSERT INTO oarlock.permits (worker_id, nth, pool, key, weight, run_id, run_priority, step_priority, granted_at)
		SELECT $1, $2::int + n, $3, CASE WHEN $3 = 'crm' THEN 'k' || n ELSE '' END, 1, n, 0, 0, CASE WHEN $4 THEN now() END FROM generate_series(1, $5::int) n`
	must(t, b.conn, fill, crowd.id, 0, "heavy", true, 99)
	must(t, b.conn, fill, crowd.id, 1000, "heavy", false, 1000)
	must(t, b.conn, fill, crowd.id, 10000, "crm", true, 1000)
	must(t, b.conn, fill, crowd.id, 10000, "total", true, 1000)
	cases := []struct {
		most   int
		name   string
		wanted []ticket
	}{ // twice what was measured
		{70, "keep", []ticket{want(1, "heavy")}},
		{140, "wait", []ticket{want(1, "heavy"), want(2, "heavy")}},
		{300, "give back and wait", []ticket{want(2, "heavy")}},
		{240, "take another key", []ticket{want(1, "heavy"), want(3, "crm/new")}},
		{360, "hear a reason", []ticket{want(1, "heavy"), want(9, "heavy")}},
	}
	one.wants(t, "1", want(1, "heavy"), want(9, "heavy"))
	b.age(t, one, 9, "1 s")
	before := make([]int, len(cases))
	for i, c := range cases {
		before[i] = one.buffers(t, c.wanted...)
		if before[i] > c.most {
			t.Errorf("to %s, a call reads %d pages, more than %d", c.name, before[i], c.most)
		}
	}
	must(t, b.conn, fill, others.id, 0, "other", true, 10_000)
	must(t, b.conn, fill, others.id, 10_000, "other", false, 10_000)
	for i, c := range cases {
		if after := one.buffers(t, c.wanted...); after > before[i]+before[i]/3 {
			t.Errorf("to %s, a call reads %d pages, and beside another pool %d", c.name, before[i], after)
		}
	}
}
