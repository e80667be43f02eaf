package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// Client returns a Client with calls that fail as planned.
func (f *Faults) Client(c Client) Client { return &faultyClient{f, c} }

type faultyClient struct {
	faults *Faults
	client Client
}

func (c *faultyClient) PutDAG(ctx context.Context, spec *dagspec.Spec, source, path string) (queue.Put, error) {
	return do(ctx, c.faults, OpPutDAG, func() (queue.Put, error) { return c.client.PutDAG(ctx, spec, source, path) })
}

func (c *faultyClient) Enqueue(ctx context.Context, r queue.Request) (queue.RunID, error) {
	return do(ctx, c.faults, OpEnqueue, func() (queue.RunID, error) { return c.client.Enqueue(ctx, r) })
}

func (c *faultyClient) Control(ctx context.Context, a queue.Ask) (queue.Control, error) {
	return do(ctx, c.faults, OpControl, func() (queue.Control, error) { return c.client.Control(ctx, a) })
}

func (c *faultyClient) Get(ctx context.Context, id queue.RunID) (*queue.Run, error) {
	return do(ctx, c.faults, OpGet, func() (*queue.Run, error) { return c.client.Get(ctx, id) })
}

func (c *faultyClient) Tasks(ctx context.Context, id queue.RunID) ([]queue.Task, error) {
	return do(ctx, c.faults, OpTasks, func() ([]queue.Task, error) { return c.client.Tasks(ctx, id) })
}

func (c *faultyClient) Result(ctx context.Context, id queue.RunID) (*queue.Result, error) {
	return do(ctx, c.faults, OpResult, func() (*queue.Result, error) { return c.client.Result(ctx, id) })
}

// Session returns a Session with calls that fail as planned. If the reply to a poll is lost, a later sweep gives the
// claims back, as the sweep of a store in Postgres does.
func (f *Faults) Session(s Session) Session {
	w := &faultySession{faults: f, Session: s}
	return Session{Claimer: w, Reader: w, Journal: w, Lease: w, LogSink: w}
}

// faultySession passes ID and Deadline on to the embedded Session without faults.
type faultySession struct {
	Session

	faults *Faults
	mu     sync.Mutex
	unread []*queue.Claim // claims that a lost reply contained
}

func (s *faultySession) Poll(ctx context.Context, want queue.Want) (queue.Polled, error) {
	var claimed []*queue.Claim
	polled, err := do(ctx, s.faults, OpPoll, func() (queue.Polled, error) {
		p, err := s.Session.Poll(ctx, want)
		claimed = append(claimed, p.Claims...)
		return p, err
	})
	if lost := len(claimed) - len(polled.Claims); lost > 0 { // the caller sees the answer of the last call only
		s.mu.Lock()
		s.unread = append(s.unread, claimed[:lost]...)
		s.mu.Unlock()
	}
	return polled, err
}

func (s *faultySession) Look(ctx context.Context, load queue.Load) (queue.Looked, error) {
	return do(ctx, s.faults, OpLook, func() (queue.Looked, error) { return s.Session.Look(ctx, load) })
}

func (s *faultySession) DoChores(ctx context.Context) (queued int, err error) {
	return do(ctx, s.faults, OpDoChores, func() (int, error) { return s.Session.DoChores(ctx) })
}

func (s *faultySession) Sweep(ctx context.Context) (queue.Swept, error) {
	return do(ctx, s.faults, OpSweep, func() (queue.Swept, error) {
		swept, err := s.Session.Sweep(ctx)
		if err == nil {
			err = s.giveBack(ctx)
		}
		return swept, err
	})
}

func (s *faultySession) Attend(ctx context.Context) (queue.Attended, error) {
	return do(ctx, s.faults, OpAttend, func() (queue.Attended, error) { return s.Session.Attend(ctx) })
}

func (s *faultySession) Permits(ctx context.Context, all []queue.Permit) ([]queue.PermitAnswer, error) {
	return do(ctx, s.faults, OpPermits, func() ([]queue.PermitAnswer, error) { return s.Session.Permits(ctx, all) })
}

func (s *faultySession) LeaveAlone(ctx context.Context, run queue.RunID, uses []dagrun.PoolUse, pause time.Duration) error {
	return try(ctx, s.faults, OpLeaveAlone, func() error { return s.Session.LeaveAlone(ctx, run, uses, pause) })
}

// giveBack releases the claims that a poll made and did not return.
func (s *faultySession) giveBack(ctx context.Context) error {
	s.mu.Lock()
	unread := s.unread
	s.unread = nil
	s.mu.Unlock()
	for _, c := range unread {
		if err := s.Session.Release(ctx, c, false, 0); err != nil && !errors.Is(err, queue.ErrLeaseLost) {
			return err
		}
	}
	return nil
}

func (s *faultySession) Load(ctx context.Context, claims []*queue.Claim) ([]*queue.Loaded, error) {
	return do(ctx, s.faults, OpLoad, func() ([]*queue.Loaded, error) { return s.Session.Load(ctx, claims) })
}

func (s *faultySession) ReadMail(ctx context.Context, claims []*queue.Claim) ([]*queue.Mailbox, error) {
	return do(ctx, s.faults, OpReadMail, func() ([]*queue.Mailbox, error) { return s.Session.ReadMail(ctx, claims) })
}

func (s *faultySession) Definition(ctx context.Context, dagID int64, version int) (*queue.Definition, error) {
	return do(ctx, s.faults, OpDefinition, func() (*queue.Definition, error) { return s.Session.Definition(ctx, dagID, version) })
}

// Hear drops the notifications if its reply is lost. Notifications are hints, so a loss is allowed.
func (s *faultySession) Hear(ctx context.Context) (queue.Heard, error) {
	return do(ctx, s.faults, OpHear, func() (queue.Heard, error) { return s.Session.Hear(ctx) })
}

// Cached finds nothing if its reply is lost, since a cache that does not answer counts as empty.
func (s *faultySession) Cached(ctx context.Context, run queue.RunID, step, key string, shared bool) (outputs dagrun.JSON, found bool, err error) {
	outputs, err = do(ctx, s.faults, OpCached, func() (dagrun.JSON, error) {
		outputs, found, err = s.Session.Cached(ctx, run, step, key, shared)
		return outputs, err
	})
	return outputs, found && err == nil, err
}

func (s *faultySession) Commit(ctx context.Context, b *queue.Batch) error {
	applied := false
	return try(ctx, s.faults, OpCommit, func() error {
		err := s.Session.Commit(ctx, b)
		if applied && (b.Leave != nil || b.Result != nil) && errors.Is(err, queue.ErrLeaseLost) {
			return nil // the first copy gave the claim back: a store recognises its own flush
		}
		applied = err == nil
		return err
	})
}

func (s *faultySession) Release(ctx context.Context, c *queue.Claim, waits bool, wake dagrun.Time) error {
	return try(ctx, s.faults, OpRelease, func() error { return s.Session.Release(ctx, c, waits, wake) })
}

func (s *faultySession) FailRun(ctx context.Context, c *queue.Claim, why error) error {
	return try(ctx, s.faults, OpFailRun, func() error { return s.Session.FailRun(ctx, c, why) })
}

func (s *faultySession) EnqueueChild(ctx context.Context, c queue.Child) (queue.RunID, error) {
	return do(ctx, s.faults, OpEnqueueChild, func() (queue.RunID, error) { return s.Session.EnqueueChild(ctx, c) })
}

func (s *faultySession) Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error) {
	return do(ctx, s.faults, OpRenew, func() (queue.Renewal, error) { return s.Session.Renew(ctx, v) })
}

func (s *faultySession) Drain(ctx context.Context) error {
	return try(ctx, s.faults, OpDrain, func() error { return s.Session.Drain(ctx) })
}

func (s *faultySession) Close(ctx context.Context) error {
	return try(ctx, s.faults, OpClose, func() error { return s.Session.Close(ctx) })
}

func (s *faultySession) AppendLogs(ctx context.Context, chunks []queue.Chunk) error {
	return try(ctx, s.faults, OpAppendLogs, func() error { return s.Session.AppendLogs(ctx, chunks) })
}
