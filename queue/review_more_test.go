package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestReview_AnOpenDrainDoesNotStopTheHeart(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.register(t)
	f.inOpen(t, f.user(t, "boss", "oarlock_admin"), "SELECT oarlock.drain_worker($1)", s.ID().String())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := s.Renew(ctx, 0); err != nil {
		t.Errorf("a renewal waits for an administrator's open transaction: %v", err)
	}
}

func TestReview_AWorkerRoleRewritesWhatADAGAllows(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, q := range []string{
		"UPDATE oarlock.dags SET current_version = 1, current_ok = '1 == 1', current_names = '{x}', max_active_runs = 0",
		"UPDATE oarlock.queues SET max_running = 0, paused_by = NULL, paused_at = NULL",
		"UPDATE oarlock.lanes SET selector = '{}', needs = '{}'",
	} {
		if _, err := conn.Exec(t.Context(), q); err == nil {
			t.Errorf("a worker may: %s", q)
		}
	}
}
