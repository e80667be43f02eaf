package queue_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// What a poll is not needed for is not in its statement, and what is left of it claims as much.
func TestPoll_IsSentWithWhatItIsNeededFor(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.register(t)
	poll(t, s, 0)
	waiting := -1
	for want, c := range map[string]struct {
		appetite queue.Appetite
		claims   int
		parts    []string
	}{
		"few":         {queue.Appetite{Free: 5}, 5, []string{"fresh"}},
		"many":        {queue.Appetite{Free: 50}, 50, []string{"fresh", "many"}},
		"ahead alone": {queue.Appetite{Ahead: 50, Roused: 5}, 50, []string{"fresh", "many"}},
		"ranked":      {queue.Appetite{Free: 5, Least: &waiting}, 5, []string{"fresh", "top"}},
		"roused":      {queue.Appetite{Roused: 64, Least: &waiting}, 3, []string{"roused", "many", "top"}},
		"nothing":     {queue.Appetite{}, 0, []string{"roused"}},
	} {
		f.ask(t, "plain", 100)
		f.exec(t, `UPDATE oarlock.runs SET epoch = 1, started_at = now() WHERE run_id = ANY (ARRAY(SELECT run_id FROM oarlock.runs WHERE state = 'queued' ORDER BY run_id LIMIT 3))`)
		statement, args := s.PollStatement(c.appetite)
		for part, mark := range map[string]string{"fresh": "passed AS", "roused": "roused.run_id", "many": "fitting (", "top": "AS top"} {
			if got := strings.Contains(statement, mark); got != slices.Contains(c.parts, part) {
				t.Errorf("%s: the part %s is there: %v", want, part, got)
			}
		}
		if got := f.claimedBy(t, s.OnClaims, statement, args); got != c.claims {
			t.Errorf("%s: claimed %d, want %d", want, got, c.claims)
		}
		f.exec(t, "UPDATE oarlock.runs SET state = 'succeeded', finished_at = now(), worker_id = NULL, claim_id = NULL WHERE state <> 'succeeded'")
	}
}

// claimedBy counts what a statement claims.
func (f *fleet) claimedBy(t *testing.T, on func(context.Context, func(context.Context, *pgx.Conn) error) error, statement string, args pgx.StrictNamedArgs) (n int) {
	t.Helper()
	before := value[int](t, f.desk, "SELECT count(*) FROM oarlock.runs WHERE state = 'running'")
	err := on(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement, args)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return value[int](t, f.desk, "SELECT count(*) FROM oarlock.runs WHERE state = 'running'") - before
}
