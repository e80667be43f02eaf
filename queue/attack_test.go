package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// definers returns calls of the functions that run with the rights of the owner: with all arguments, and with the required ones.
// The values reach far into each function. A trigger cannot be called by itself.
const definers = `
	SELECT format('SELECT x FROM oarlock.%I(%s) x', p.proname, string_agg(
	         format('%s', CASE a.type::regtype::text
	           WHEN 'bigint' THEN '1::bigint' WHEN 'integer' THEN '1' WHEN 'boolean' THEN 'false' WHEN 'uuid' THEN 'gen_random_uuid()'
	           WHEN 'jsonb' THEN '''{"day": "x"}''::jsonb' WHEN 'jsonb[]' THEN 'ARRAY[''{"day": "x"}'']::jsonb[]'
	           WHEN 'timestamp with time zone' THEN 'now()' WHEN 'date' THEN 'current_date' WHEN 'text[]' THEN 'ARRAY[''process'']'
	           WHEN 'text' THEN CASE a.name WHEN 'dag' THEN '''report''' WHEN 'step' THEN '''load''' WHEN 'mode' THEN '''from''' WHEN 'as' THEN '''failed'''
	                             WHEN 'state' THEN '''queued''' WHEN 'trigger' THEN '''sql''' WHEN 'queue' THEN '''default''' ELSE '''x''' END
	           ELSE 'NULL::' || a.type::regtype::text END), ', ' ORDER BY a.n) FILTER (WHERE a.n <= given.n))
	  FROM pg_proc p
	 CROSS JOIN LATERAL (SELECT DISTINCT unnest(ARRAY[p.pronargs, p.pronargs - p.pronargdefaults]) AS n) given
	  LEFT JOIN LATERAL (SELECT t.type, t.n, coalesce(p.proargnames[t.n], '') AS name FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY t (type, n)) a ON true
	 WHERE p.pronamespace = 'oarlock'::regnamespace AND p.prosecdef AND p.prorettype <> 'trigger'::regtype
	 GROUP BY p.oid, p.proname, given.n ORDER BY 1`

// decoys are views in pg_temp with the names of all our tables, views and types, and of the catalogs that functions read. A
// function that reads one of them fails.
const decoys = `
	SELECT format('CREATE TEMP VIEW %I AS SELECT %s FROM (SELECT pg_temp.trap() OFFSET 0) t', c.relname,
	       string_agg(format('pg_temp.trap()::text::%s AS %I', format_type(a.atttypid, a.atttypmod), a.attname), ', ' ORDER BY a.attnum))
	  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	 WHERE (c.relnamespace = 'oarlock'::regnamespace AND c.relkind IN ('r', 'p', 'v')
	        OR c.relnamespace = 'pg_catalog'::regnamespace AND c.relname IN ('pg_roles', 'pg_class', 'pg_inherits', 'pg_stat_activity', 'pg_namespace', 'pg_database'))
	   AND NOT EXISTS (SELECT FROM pg_attribute x WHERE x.attrelid = c.oid AND x.atttypid IN ('anyarray'::regtype, 'pg_node_tree'::regtype, 'aclitem[]'::regtype))
	 GROUP BY c.oid, c.relname ORDER BY c.relname`

// texts reads one column.
func (d *clientBundle) texts(t *testing.T, query string) []string {
	t.Helper()
	rows, _ := d.conn.Query(t.Context(), query)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// answers makes each call in a transaction that is rolled back, and returns the outcome.
func answers(t *testing.T, conn *pgx.Conn, calls []string) []string {
	t.Helper()
	var all []string
	for _, call := range calls {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(t.Context(), call)
		answer := "fine"
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
			answer = pg.Code + " " + pg.Message
		}
		all = append(all, answer)
		_ = tx.Rollback(context.WithoutCancel(t.Context()))
	}
	return all
}

// In a function of the owner an unqualified name would find the caller's objects in pg_temp.
func TestDefiners_FindNothingThatTheirCallerPutThere(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run := d.enqueue(t, d.store)
	d.claim(t, run)
	d.exec(t, `CREATE FUNCTION oarlock.planted(x text) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp, oarlock
		AS 'SELECT count(*) FROM runs'`)
	d.exec(t, `CREATE FUNCTION oarlock.planted_path(x text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN (SELECT count(*) FROM workers); END $$`)
	d.exec(t, "GRANT EXECUTE ON FUNCTION oarlock.planted, oarlock.planted_path TO oarlock_submit")
	eve, err := pgx.Connect(t.Context(), d.user(t, "eve", "oarlock_submit", "oarlock_read", "oarlock_worker", "oarlock_admin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eve.Close(context.WithoutCancel(t.Context())) })
	calls := append(d.texts(t, definers), `INSERT INTO oarlock.inbox (dag, params) VALUES ('report', '{"day": "x"}')`, "SELECT run_id FROM oarlock.inbox")
	before := answers(t, eve, calls)
	traps := append([]string{
		"CREATE FUNCTION pg_temp.trap() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped %', current_user; END $$",
		"CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped %', current_user; END $$",
		"CREATE FUNCTION pg_temp.pg_has_role(name, oid, text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped %', current_user; END $$",
	}, d.texts(t, decoys)...)
	for _, statement := range append(traps, "SET search_path = pg_temp, oarlock, pg_catalog") {
		if _, err := eve.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	caught, fine := 0, 0
	for i, got := range answers(t, eve, calls) {
		trapped := strings.Contains(got, "trapped")
		switch planted := strings.Contains(calls[i], "oarlock.planted"); {
		case planted && trapped:
			caught++
		case planted:
			t.Errorf("%s: %s, and was not trapped", calls[i], got)
		case trapped, code(got) != code(before[i]):
			t.Errorf("%s: %s, before: %s", calls[i], got, before[i])
		case got == "fine":
			fine++
		}
	}
	t.Logf("%d calls, of which %d worked; %d decoys; %d planted functions were trapped", len(calls), fine, len(traps), caught)
	if caught != 2 || fine < len(calls)/2 {
		t.Errorf("of %d calls %d worked: the arguments lead nowhere: %q", len(calls), fine, slices.Compact(before))
	}
}

func code(answer string) string { c, _, _ := strings.Cut(answer, " "); return c }

// Any role may NOTIFY and take advisory locks. Clients notice neither.
func TestForeigners_ChangeNothingByNotificationsAndLocks(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	store := d.open(t, d.user(t, "ana", "oarlock_submit"))
	run := d.enqueue(t, store)
	d.claim(t, run)
	eve, err := pgx.Connect(t.Context(), d.user(t, "eve"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eve.Close(context.WithoutCancel(t.Context())) })
	for _, statement := range []string{
		"SELECT pg_advisory_lock(n) FROM generate_series(-50, 500) n",
		fmt.Sprintf("SELECT pg_notify('oarlock_test_%d', m) FROM unnest(ARRAY['run:%d', 'lane:1', 'drain', '', 'run:x', repeat('x', 7999)]) m", run, run),
	} {
		if _, err := eve.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	before := d.get(t, run)
	keyed, err := store.Enqueue(t.Context(), report("key"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := store.Enqueue(t.Context(), report("key")); err != nil || again != keyed {
		t.Errorf("run %d, then %d, %v", keyed, again, err)
	}
	if after := d.get(t, run); after.State != before.State || after.Epoch != before.Epoch || after.Worker != before.Worker {
		t.Errorf("%+v, was %+v", after, before)
	}
	if c, err := store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbCancel}); err != nil || c.Outcome != dagrun.Accepted {
		t.Errorf("%+v, %v", c, err)
	}
}
