package queue_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestGrants_AWorkerRewritesNoRequest(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, q := range []string{
		"UPDATE oarlock.dags SET current_version = 1, current_ok = '1 == 1', current_names = '{x}', max_active_runs = 0",
		"UPDATE oarlock.queues SET max_running = 0, paused_by = NULL, paused_at = NULL",
		"UPDATE oarlock.lanes SET selector = '{}', needs = '{}'",
		"UPDATE oarlock.runs SET params = '{}'",
		"UPDATE oarlock.runs SET submitted_by = session_user",
		"UPDATE oarlock.runs SET dag_id = 2, version = 1",
		"UPDATE oarlock.claims SET params = '{}'",
		"UPDATE oarlock.controls SET by = session_user",
	} {
		if _, err := conn.Exec(t.Context(), q); err == nil {
			t.Errorf("a worker may: %s", q)
		}
	}
}
