package queue_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// What a poll is not needed for is not in its statement, and what is left of it claims as much.
func TestPoll_IsSentWithWhatItIsNeededFor(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s, other := f.register(t), f.register(t)
	const few, many = 5, 50
	for _, hungry := range []bool{false, true} {
		if hungry {
			poll(t, other, few) // and gets none
		}
		poll(t, s, 0)
		for _, want := range []int{few, many} {
			f.ask(t, "plain", 2*many)
			statement, args := s.PollStatement(want)
			for part, there := range map[string]bool{"share AS": hungry, "fitting (": want == many} {
				if strings.Contains(statement, part) != there {
					t.Errorf("hungry %v, want %d: %q is there: %v", hungry, want, part, !there)
				}
			}
			fall := want
			if hungry {
				fall = (want + 1) / 2 // the other one's half is left to it
			}
			if got := f.claimedBy(t, s.OnClaims, statement, args); got != fall {
				t.Errorf("hungry %v, want %d: claimed %d of %d", hungry, want, got, fall)
			}
			f.exec(t, "UPDATE oarlock.runs SET state = 'succeeded', finished_at = now(), worker_id = NULL, claim_id = NULL WHERE state <> 'succeeded'")
		}
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
