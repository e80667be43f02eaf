package worker

import (
	"context"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// Session is where a worker's runs are, by role: a *queue.Session in each, or what stands for one in a test.
type Session struct {
	Reader
	Writer
	Lease
}

// SessionOf is a session of a store in every role.
func SessionOf(s *queue.Session) Session { return Session{Reader: s, Writer: s, Lease: s} }

// Reader is what claimer and drivers read.
type Reader interface {
	Poll(ctx context.Context, a queue.Appetite) (queue.Polled, error)
	Load(ctx context.Context, claims []*queue.Claim) ([]*queue.Loaded, error)
	ReadMail(ctx context.Context, claims []*queue.Claim) ([]*queue.Mailbox, error)
	Definition(ctx context.Context, dagID int64, version int) (*queue.Definition, error)
	Hear(ctx context.Context) (queue.Heard, error)
	Cached(ctx context.Context, run queue.RunID, step, key string, shared bool) (outputs dagrun.JSON, found bool, err error)
}

// Writer is what drivers write.
type Writer interface {
	Commit(ctx context.Context, b *queue.Batch) error
	Release(ctx context.Context, c *queue.Claim, waits bool) error
	Condemn(ctx context.Context, c *queue.Claim, reason string) error
	AppendLogs(ctx context.Context, chunks []queue.Chunk) error
	EnqueueChild(ctx context.Context, c queue.Child) (queue.RunID, error)
}

// Lease is a worker's proof of life, and its end.
type Lease interface {
	Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error)
	Deadline() (soft, hard time.Duration)
	Drain(ctx context.Context) error
	Close(ctx context.Context) error
	Stats() queue.SessionStats
}
