package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/queue"
)

// The pool's settings alone lead nowhere. Every connection must run the hook first.
func TestOpen_EveryConnectionIsPreparedAsThePoolsAre(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	config, err := pgxpool.ParseConfig(f.url)
	if err != nil {
		t.Fatal(err)
	}
	user := config.ConnConfig.User
	config.ConnConfig.User = "nobody-of-this-name"
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.User = user
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := queue.Open(t.Context(), queue.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)

	s := f.registerAt(t, store)
	f.ask(t, "plain", 1)
	claim := poll(t, s, 1).Claims[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Commit(ctx, &queue.Batch{Claim: claim, Seen: claim.Inbox}); err != nil {
		t.Errorf("the journal: %v", err)
	}
	if err := s.AppendLogs(ctx, []queue.Chunk{{Run: claim.Run, Attempt: 1, Day: time.Now(), At: time.Now(), Data: []byte("x")}}); err != nil {
		t.Errorf("logs: %v", err)
	}
	if _, err := s.Hear(ctx); err != nil {
		t.Errorf("notifications: %v", err)
	}
}
