package queuetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/queue/queuetest"
)

// inMemory is a harness with a clock that moves by ticks alone.
func inMemory(*testing.T) queuetest.Harness {
	clock := newClock()
	m := queuetest.NewMemory(queuetest.Options{Now: clock.Now})
	sessions := map[queuetest.Lease]*queuetest.MemorySession{}
	return queuetest.Harness{
		Client: m, Admin: m, Logs: m, History: m,
		EnqueueAsAnother: func(ctx context.Context, r queue.Request) (queue.RunID, error) { return m.EnqueueAs(ctx, "another", r) },
		Register: func(ctx context.Context, w queue.Worker) (queuetest.Session, error) {
			s, err := m.Register(ctx, w)
			if err != nil {
				return queuetest.Session{}, err
			}
			sessions[s] = s
			return s.Roles(), nil
		},
		Settle: func(ctx context.Context, s queuetest.Session, set queue.Settlement) error {
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
	queuetest.Run(t, inMemory)
}
