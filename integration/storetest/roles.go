package storetest

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// Client enqueues runs, sends requests to them and reads them.
type Client interface {
	PutDAG(ctx context.Context, spec *dagspec.Spec, source, path string) (queue.Put, error)
	Enqueue(ctx context.Context, r queue.Request) (queue.RunID, error)
	Control(ctx context.Context, a queue.Ask) (queue.Control, error)
	Get(ctx context.Context, id queue.RunID) (*queue.Run, error)
	Tasks(ctx context.Context, id queue.RunID) ([]queue.Task, error)
	Result(ctx context.Context, id queue.RunID) (*queue.Result, error)
}

// Administrator pauses and limits what may start.
type Administrator interface {
	SetQueue(ctx context.Context, c queue.QueueChange) error
	SetDAG(ctx context.Context, c queue.DAGChange) error
	SetPool(ctx context.Context, pool string, limits queue.PoolLimits) (isNew bool, err error)
	DrainWorker(ctx context.Context, worker string) (int, error)
}

// Historian reads the history of a run, and what waits for people.
type Historian interface {
	Approvals(ctx context.Context, all bool, most int) ([]queue.Approval, error)
	Attempts(ctx context.Context, id queue.RunID) ([]queue.Attempt, error)
	Controls(ctx context.Context, id queue.RunID) ([]queue.Control, error)
	Events(ctx context.Context, id queue.RunID, after int64) ([]queue.Event, error)
}

// LogReader reads what a LogSink stored.
type LogReader interface {
	ReadLogs(ctx context.Context, q queue.LogQuery) ([]queue.Chunk, error)
}

// Claimer finds and claims runs for a worker.
type Claimer interface {
	Poll(ctx context.Context, want queue.Want) (queue.Polled, error)
	Look(ctx context.Context, load queue.Load) (queue.Looked, error)
	DoChores(ctx context.Context) (queued int, err error)
	Sweep(ctx context.Context) (queue.Swept, error)
	Hear(ctx context.Context) (queue.Heard, error)
	Attend(ctx context.Context) (queue.Attended, error)
}

// Reader reads the data of claimed runs.
type Reader interface {
	Load(ctx context.Context, claims []*queue.Claim) ([]*queue.Loaded, error)
	ReadMail(ctx context.Context, claims []*queue.Claim) ([]*queue.Mailbox, error)
	Definition(ctx context.Context, dagID int64, version int) (*queue.Definition, error)
	Cached(ctx context.Context, run queue.RunID, step, key string, shared bool) (outputs dagrun.JSON, found bool, err error)
}

// Journal writes what drives decide.
type Journal interface {
	Commit(ctx context.Context, b *queue.Batch) error
	Release(ctx context.Context, c *queue.Claim, waits bool, wake dagrun.Time) error
	FailRun(ctx context.Context, c *queue.Claim, why error) error
	EnqueueChild(ctx context.Context, c queue.Child) (queue.RunID, error)
	Stats() queue.SessionStats
}

// Gate gets permits of pools, and closes pools for a while.
type Gate interface {
	Permits(ctx context.Context, all []queue.Permit) ([]queue.PermitAnswer, error)
	LeaveAlone(ctx context.Context, run queue.RunID, uses []dagrun.PoolUse, pause time.Duration) error
}

// Lease proves that a worker is alive, and ends with it. So do the worker's permits.
type Lease interface {
	Gate

	ID() uuid.UUID
	Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error)
	Deadline() (soft, hard time.Duration)
	Drain(ctx context.Context) error
	Close(ctx context.Context) error
}

// LogSink stores pieces of logs.
type LogSink interface {
	AppendLogs(ctx context.Context, chunks []queue.Chunk) error
	Followed(run queue.RunID) bool
}

// Session is a worker's side of a store, by role. A caller that needs one role should ask for that role only.
type Session struct {
	Claimer
	Reader
	Journal
	Lease
	LogSink
}
