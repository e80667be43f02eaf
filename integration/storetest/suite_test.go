package storetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// inMemory returns a harness with a clock that only ticks move.
func inMemory(*testing.T) storetest.Harness {
	clock := newClock()
	m := storetest.NewMemory(storetest.Options{Now: clock.Now})
	sessions := map[storetest.Lease]*storetest.MemorySession{}
	return storetest.Harness{
		Client: m, Admin: m, Logs: m, History: m,
		EnqueueAsAnother: func(ctx context.Context, r queue.Request) (queue.RunID, error) { return m.EnqueueAs(ctx, "another", r) },
		Register: func(ctx context.Context, w queue.Worker) (storetest.Session, error) {
			s, err := m.Register(ctx, w)
			if err != nil {
				return storetest.Session{}, err
			}
			sessions[s] = s
			return s.Roles(), nil
		},
		Settle: func(ctx context.Context, s storetest.Session, set queue.Settlement) error {
			return sessions[s.Lease].Settle(ctx, set)
		},
		SetBack: func(d time.Duration) { clock.advance(-d) },
		Refuse: func() func() {
			m.TakeNoRecords(&pgconn.PgError{Severity: "ERROR", Code: "53100", Message: "No space left on device"})
			return func() { m.TakeNoRecords(nil) }
		},
		TTL:  300 * time.Millisecond,
		Tick: func() { clock.advance(5 * time.Millisecond) },
	}
}

func TestMemory_KeepsItsPromises(t *testing.T) {
	t.Parallel()
	storetest.Run(t, inMemory)
}
