package migrations_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// administrators has the statements that a worker may not execute.
var administrators = map[string]bool{
	"queue/put_dag": true, "queue/set_dag": true, "queue/set_queue": true, "queue/drain_worker": true,
	"queue/prune": true, "queue/put_schedule": true, "queue/drop_schedule": true, "queue/pause_schedule": true, "queue/resume_schedule": true,
	"queue/trigger_schedule": true, "queue/backfill": true, "queue/backfill_times": true,
	"queue/set_pool": true, "queue/set_pool_key": true, "queue/close_pool": true, "queue/open_pool": true, "queue/remove_pool": true,
}

// Every file is a statement that this schema understands. A login with nothing but its role may execute the statements of
// workers and clients: EXPLAIN checks that and executes nothing.
func TestStatements_FitTheSchemaAndTheRolesOfThoseWhoUseThem(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	worker, admin := b.user(t, "wo", "oarlock_worker"), b.user(t, "ad", "oarlock_admin")
	_, uncounted := b.conn.Exec(t.Context(), "CREATE EXTENSION IF NOT EXISTS pg_stat_statements") // some statements of benchmarks need it
	for _, name := range sql.Names() {
		if uncounted != nil && strings.Contains(sql.Named(name), "pg_stat_statements") {
			continue
		}
		conn, roles := worker, true
		switch folder, _, _ := strings.Cut(name, "/"); {
		case administrators[name]:
			conn = admin
		case folder != "queue" && folder != "listen":
			conn, roles = b.conn, false
		}
		statement, args, err := pgx.NamedArgs{}.RewriteQuery(t.Context(), nil, sql.Named(name), nil)
		if err != nil {
			t.Errorf("sql/%s.sql: %v", name, err)
			continue
		}
		prepared, err := conn.Prepare(t.Context(), name, statement)
		if err != nil {
			t.Errorf("sql/%s.sql: %v", name, err)
			continue
		}
		if named := len(args); named > 0 && named != len(prepared.ParamOIDs) {
			t.Errorf("sql/%s.sql: %d names for %d parameters: it has both @name and $1", name, named, len(prepared.ParamOIDs))
		}
		if roles && explainable.MatchString(statement) {
			mayExecute(t, conn, name, statement, len(prepared.ParamOIDs))
		}
	}
}

// Matches the name that every statement begins with, then a statement that EXPLAIN takes.
var explainable = regexp.MustCompile(`^/\*[^*]*\*/\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b`)

func mayExecute(t *testing.T, conn *pgx.Conn, name, statement string, params int) {
	t.Helper()
	result := conn.PgConn().ExecParams(t.Context(), "EXPLAIN "+statement, make([][]byte, params), nil, nil, nil).Read()
	if result.Err != nil {
		t.Errorf("sql/%s.sql: %v", name, result.Err)
	}
}

// A plan that a setting forbids looks so dear that Postgres compiles it, which takes 0.2 s at each call.
func TestFunctions_ThatSteerPlansAreNotCompiled(t *testing.T) {
	t.Parallel()
	b := api(t)
	compiled := b.list(t, `SELECT p.oid::regprocedure::text FROM pg_proc p WHERE pronamespace = 'oarlock'::regnamespace
		AND p.proconfig::text LIKE '%enable_%=off%' AND NOT 'jit=off' = ANY (p.proconfig)`)
	if len(compiled) > 0 {
		t.Errorf("say SET jit = off of %v", compiled)
	}
}
