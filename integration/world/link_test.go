package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// errAway is the error of a call with an unknown outcome, as when a connection breaks.
var errAway = fmt.Errorf("the connection broke: %w", queue.ErrUnknown)

// link is a worker's session over a failing network, like a queue.Session. Reads and renewals fail, though the store may
// have applied them. A commit is sent again until its outcome is known.
type link struct {
	*process
	inner *storetest.MemorySession

	lmu        sync.Mutex
	soft, hard time.Duration
	unheard    []*queue.Claim // claims that the store gave in answers that were lost
}

// register opens a session, if the network permits.
func (p *process) register(ctx context.Context, w queue.Worker) (worker.Session, error) {
	sent := p.boot()
	inner, err := call(ctx, p, "register", "", func() (*storetest.MemorySession, error) { return p.store.register(ctx, p, w) })
	if err != nil {
		return worker.Session{}, err
	}
	l := &link{process: p, inner: inner}
	l.extend(sent)
	return worker.Session{Claimer: l, Reader: l, Writer: l, Lease: l}, nil
}

// The calls that show whether a worker would find a run.
const (
	opPoll = "poll"
	opLook = "look"
)

// fate is what happens to one call.
type fate struct {
	fault       storetest.Fault
	there, back time.Duration
	late        bool
}

// fateOf draws the fate of a call. Calls of the same kind for the same thing differ by their number.
func (p *process) fateOf(op, key string) fate {
	what := op + " " + key
	p.mu.Lock()
	p.calls[what]++
	n := p.calls[what]
	p.mu.Unlock()
	r := draw(p.seed, "call", p.name, what, n)
	f := fate{there: span(r, 100*time.Microsecond, 3*time.Millisecond), back: span(r, 100*time.Microsecond, 3*time.Millisecond)}
	f.late = oneIn(r, 2)
	if p.calm() {
		return f
	}
	if oneIn(r, 40) {
		p.count(func(c *Counts) { c.Slow++ })
		f.there = span(r, 10*time.Millisecond, ttl/3)
	}
	switch r.IntN(50) {
	case 0:
		p.count(func(c *Counts) { c.FailedBefore++ })
		f.fault = storetest.UnknownBefore
	case 1:
		p.count(func(c *Counts) { c.FailedAfter++ })
		f.fault = storetest.UnknownAfter
	case 2:
		p.count(func(c *Counts) { c.Twice++ })
		f.fault = storetest.Twice
	}
	return f
}

// reach takes a call to the store. It waits while the process stands still, and returns an error if the call gets lost.
func (p *process) reach(ctx context.Context, f fate) error {
	p.thaw(false, 0)
	if !p.pause(ctx, f.there) {
		return context.Cause(ctx)
	}
	if left := p.isAway(); left > 0 {
		p.pause(ctx, min(left+f.back, callLimit+f.back))
		return errAway
	}
	if p.isDead() {
		return errAway
	}
	return nil
}

// pause waits, and reports whether ctx still goes on.
func (p *process) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.dead:
	case <-ctx.Done():
		return false
	}
	return true
}

// call makes a call with its fate. A call that fails may have been applied.
func call[T any](ctx context.Context, p *process, op, key string, do func() (T, error)) (answer T, err error) {
	var none T
	f := p.fateOf(op, key)
	if err := p.reach(ctx, f); err != nil {
		return none, err
	}
	if f.fault == storetest.UnknownBefore {
		return none, errAway
	}
	answer, err = do()
	if f.fault == storetest.Twice && err == nil && op != opPoll && op != "register" {
		answer, err = do()
	}
	p.pause(ctx, f.back)
	p.thaw(false, f.back)
	if f.fault == storetest.UnknownAfter || p.isDead() || p.isAway() > 0 {
		return none, errAway
	}
	return answer, err
}

func (l *link) extend(sent time.Duration) {
	l.lmu.Lock()
	defer l.lmu.Unlock()
	l.soft, l.hard = sent+ttl*6/10, sent+ttl*7/10
}

// Deadline counts from the moment before the last answered renewal was sent.
func (l *link) Deadline() (soft, hard time.Duration) {
	l.lmu.Lock()
	defer l.lmu.Unlock()
	return l.soft, l.hard
}

func (l *link) Stats() queue.SessionStats { return queue.SessionStats{} }

// Poll keeps the claims of a lost answer, so that a sweep gives them back.
func (l *link) Poll(ctx context.Context, want queue.Want) (queue.Polled, error) {
	var got queue.Polled
	l.store.asks(l.process, opPoll)
	polled, err := call(ctx, l.process, opPoll, "", func() (queue.Polled, error) {
		var err error
		got, err = l.store.poll(ctx, l, want)
		return got, err
	})
	l.store.answered(l.process, opPoll, err)
	if err != nil && len(got.Claims) > 0 {
		l.count(func(c *Counts) { c.Unheard += len(got.Claims) })
		l.lmu.Lock()
		l.unheard = append(l.unheard, got.Claims...)
		l.lmu.Unlock()
	}
	return polled, err
}

// Look also asks for a sweep after a lost answer to a poll, as a session does that lost a connection.
func (l *link) Look(ctx context.Context, load queue.Load) (queue.Looked, error) {
	l.store.asks(l.process, opLook)
	looked, err := call(ctx, l.process, opLook, "", func() (queue.Looked, error) { return l.store.look(ctx, l, load) })
	l.store.answered(l.process, opLook, err)
	l.lmu.Lock()
	defer l.lmu.Unlock()
	looked.Sweep = err == nil && (looked.Sweep || len(l.unheard) > 0)
	return looked, err
}

// DoChores wakes and expires runs, whatever happens meanwhile to looks.
func (l *link) DoChores(ctx context.Context) (queued int, err error) {
	return call(ctx, l.process, "chores", "", func() (int, error) { return l.store.doChores(ctx, l) })
}

// Attend fires schedules. Two reasons at one moment may cause one call or two, so the fate of the call is drawn by the
// moment.
func (l *link) Attend(ctx context.Context) (queue.Attended, error) {
	return call(ctx, l.process, "attend", time.Now().String(), func() (queue.Attended, error) { return l.store.attend(ctx, l) })
}

// Sweep also gives back the claims that the store holds for the worker and the worker does not know.
func (l *link) Sweep(ctx context.Context) (queue.Swept, error) {
	swept, err := call(ctx, l.process, "sweep", "", func() (queue.Swept, error) { return l.store.sweep(ctx, l) })
	if err != nil {
		return swept, err
	}
	l.lmu.Lock()
	unheard := l.unheard
	l.unheard = nil
	l.lmu.Unlock()
	for _, c := range unheard {
		_ = l.store.release(ctx, l, c, false, 0)
	}
	return swept, nil
}

// Renew moves the deadline if its answer arrives.
func (l *link) Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error) {
	sent := l.boot()
	renewal, err := call(ctx, l.process, "renew", "", func() (queue.Renewal, error) { return l.store.renew(ctx, l, v) })
	if err == nil {
		l.extend(sent)
	}
	return renewal, err
}

func (l *link) Load(ctx context.Context, claims []*queue.Claim) ([]*queue.Loaded, error) {
	return call(ctx, l.process, "load", keyOf(claims[0]), func() ([]*queue.Loaded, error) { return l.store.load(ctx, l, claims) })
}

func (l *link) ReadMail(ctx context.Context, claims []*queue.Claim) ([]*queue.Mailbox, error) {
	return call(ctx, l.process, "mail", keyOf(claims[0]), func() ([]*queue.Mailbox, error) { return l.store.readMail(ctx, l, claims) })
}

func (l *link) Definition(ctx context.Context, dagID int64, version int) (*queue.Definition, error) {
	key := fmt.Sprint(dagID, " ", version)
	return call(ctx, l.process, "definition", key, func() (*queue.Definition, error) { return l.inner.Definition(ctx, dagID, version) })
}

// Hear loses notifications to a process that stands still or is cut off.
func (l *link) Hear(ctx context.Context) (queue.Heard, error) {
	for {
		heard, err := l.inner.Hear(ctx)
		if err != nil || !l.isDead() && l.isAway() <= 0 {
			l.thaw(false, l.fateOf("hear", "").there)
			return heard, err
		}
	}
}

func (l *link) Cached(ctx context.Context, run queue.RunID, step, key string, shared bool) (dagrun.JSON, bool, error) {
	return l.inner.Cached(ctx, run, step, key, shared)
}

// Commit sends a batch until its outcome is known, as the journal does. The copy before is dead by then.
func (l *link) Commit(ctx context.Context, b *queue.Batch) error {
	return l.send(ctx, "commit", b.Claim, b.Leave != nil || b.Result != nil, func() error { return l.store.commit(ctx, l, b) })
}

func (l *link) Release(ctx context.Context, c *queue.Claim, waits bool, wake dagrun.Time) error {
	l.store.leaves(c.Run, 1)
	defer l.store.leaves(c.Run, -1)
	return l.send(ctx, "release", c, true, func() error { return l.store.release(ctx, l, c, waits, wake) })
}

func (l *link) FailRun(ctx context.Context, c *queue.Claim, why error) error {
	return l.send(ctx, "fail run", c, true, func() error { return l.store.failRun(ctx, l, c, why) })
}

// send sends a write. gives tells whether the write gives the claim back.
func (l *link) send(ctx context.Context, op string, c *queue.Claim, gives bool, write func() error) error {
	applied := false
	once := func() error {
		err := write()
		if applied && gives && errors.Is(err, queue.ErrLeaseLost) {
			return nil // the copy before has done it
		}
		applied = applied || err == nil
		return err
	}
	for sent := false; ; {
		f := l.fateOf(op, keyOf(c))
		err := l.reach(ctx, f)
		switch {
		case l.isDead():
			l.straggle(f, write)
			return queue.ErrLeaseLost
		case ctx.Err() != nil && !sent:
			return ctx.Err()
		case err != nil:
			if ctx.Err() != nil {
				l.sleep(min(max(l.isAway(), time.Millisecond)+f.back, ttl))
			}
			continue
		}
		sent = true
		if f.fault == storetest.UnknownBefore {
			continue
		}
		err = once()
		if f.fault == storetest.Twice {
			err = once()
		}
		l.sleep(f.back)
		l.thaw(false, f.back)
		if f.fault != storetest.UnknownAfter && l.isAway() <= 0 && !l.isDead() {
			return err
		}
	}
}

// straggle lets a write land some time after the death of the process that sent it.
func (l *link) straggle(f fate, write func() error) {
	if !f.late {
		return
	}
	l.count(func(c *Counts) { c.Late++ })
	wait := span(draw(l.seed, "late", l.name, f.there), time.Millisecond, 2*ttl)
	l.all.Go(func() {
		time.Sleep(wait)
		if err := write(); err != nil {
			l.count(func(c *Counts) { c.LateRefused++ })
		}
	})
}

func (l *link) AppendLogs(ctx context.Context, chunks []queue.Chunk) error {
	key := fmt.Sprint(chunks[0].Run, chunks[0].Task, chunks[0].Attempt)
	_, err := call(ctx, l.process, "logs", key, func() (struct{}, error) { return struct{}{}, l.store.logs(ctx, l, chunks) })
	return err
}

func (l *link) EnqueueChild(ctx context.Context, c queue.Child) (queue.RunID, error) {
	return call(ctx, l.process, "child", fmt.Sprint(keyOf(c.Claim), c.Task, c.Attempt), func() (queue.RunID, error) {
		return l.store.child(ctx, l, c)
	})
}

func (l *link) Drain(ctx context.Context) error {
	_, err := call(ctx, l.process, "drain", "", func() (struct{}, error) { return struct{}{}, l.store.drain(ctx, l) })
	return err
}

func (l *link) Close(ctx context.Context) error {
	_, err := call(ctx, l.process, "close", "", func() (struct{}, error) { return struct{}{}, l.store.close(ctx, l) })
	return err
}

func keyOf(c *queue.Claim) string { return fmt.Sprint(c.Run, " ", c.Epoch) }

// logs writes a line and a marker for each attempt.
type logs struct{ sink worker.Writer }

func (l logs) Open(name worker.LogName) worker.Log {
	return &log{name: name, sink: l.sink}
}
func (logs) Close() {}

// log sends the first line at once, if it can, and the rest with the end of the attempt.
type log struct {
	name worker.LogName
	sink worker.Writer
	sent []queue.Chunk
}

func (l *log) Stdout() io.Writer { return l }
func (*log) Stderr() io.Writer   { return io.Discard }
func (*log) Mask([]string)       {}

func (l *log) Write(p []byte) (int, error) {
	if len(l.sent) == 0 {
		l.sent = []queue.Chunk{l.chunk()}
		l.sent[0].Data = bytes.Clone(p)
		_ = l.sink.AppendLogs(context.Background(), l.sent) // the outcome does not matter: the end sends it again
	}
	return len(p), nil
}

func (l *log) chunk() queue.Chunk {
	n := l.name
	return queue.Chunk{Run: n.Run, Task: n.Task, Attempt: n.Attempt, Day: n.Day, Seq: n.Next}
}

func (l *log) Close(_ context.Context, reason string) ([]queue.Chunk, string) {
	last := l.chunk()
	last.Seq, last.Final, last.Reason = last.Seq+len(l.sent), true, reason
	return append(l.sent, last), ""
}
