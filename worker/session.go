package worker

import (
	"context"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// Session is where a worker's runs are, by role: a *queue.Session in each, or what stands for one in a test.
type Session struct {
	Claimer
	Reader
	Writer
	Lease

	Database string // for people: user@host/database
}

// SessionOf is a session of a store in every role.
func SessionOf(s *queue.Session) Session {
	return Session{Claimer: s, Reader: s, Writer: s, Lease: s, Database: s.Database()}
}

// Claimer is where runs come from. No call waits for another.
type Claimer interface {
	Poll(ctx context.Context, want queue.Want) (queue.Polled, error)
	Look(ctx context.Context, load queue.Load) (queue.Looked, error)
	DoChores(ctx context.Context) (queued int, err error)
	Sweep(ctx context.Context) (queue.Swept, error)
	Hear(ctx context.Context) (queue.Heard, error)
	Attend(ctx context.Context) (queue.Attended, error)
}

// Reader is what drivers read.
type Reader interface {
	Load(ctx context.Context, claims []*queue.Claim) ([]*queue.Loaded, error)
	ReadMail(ctx context.Context, claims []*queue.Claim) ([]*queue.Mailbox, error)
	Definition(ctx context.Context, dagID int64, version int) (*queue.Definition, error)
	Cached(ctx context.Context, run queue.RunID, step, key string, shared bool) (outputs dagrun.JSON, found bool, err error)
}

// Writer is what drivers write.
type Writer interface {
	Commit(ctx context.Context, b *queue.Batch) error
	Release(ctx context.Context, c *queue.Claim, waits bool, wake dagrun.Time) error
	Condemn(ctx context.Context, c *queue.Claim, why error) error
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
