package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

// journalQueue bounds the batches that wait for the flush under way to end. More wait in Commit itself.
const journalQueue = 1000

// hopeEvery is how often a journal that is to end looks whether flushes fail.
const hopeEvery = 20 * time.Millisecond

// journalConfig is what a journal needs.
type journalConfig struct {
	worker  uuid.UUID
	name    string // of the worker, for people
	link    *link  // which it has for itself
	held    *claimSet
	flushed func(FlushTry) // told of every try; nil: nobody is
	doubt   func()         // called where the database has a claim that was given up
	lost    func()         // called once it is known that the worker's fence is gone; every claim is forfeited by then
	timeout time.Duration  // of a flush, then it is begun anew; 0: callTimeout
}

// journal writes what drives decide. All drives of a worker share it: while one flush is in flight the next gathers, and
// when none is, one goes at once. One goroutine owns everything but the queue.
//
// A flush is one statement, so it is written as a whole or not at all, and harmless when it is sent twice. It must not
// land after later ones, though: once the outcome of a flush is unknown, its server process is ended and seen gone
// before anything else is sent.
type journal struct {
	journalConfig

	queue chan *entry

	closing   chan struct{} // closed: nothing more is taken
	closeOnce sync.Once
	ctx       context.Context //nolint:containedctx // of the goroutine, not of a call; ended: give up what cannot be written
	cancel    context.CancelFunc
	ended     chan struct{} // the goroutine has returned

	aside    []*entry  // wait for a run that somebody else holds
	carry    *entry    // taken out of the queue, but for the next flush
	flush    *flush    // buffers
	prepared *pgx.Conn // knows the statement
	flying   []*piece  // what is being written
	pulse    pulse     // of the goroutine
	health   health
	probeAt  time.Time    // when to probe; zero: nobody asked yet
	tries    atomic.Int64 // flushes begun, also those that did not reach the database
	dropped  atomic.Int64 // batches that were given up when it closed
}

func newJournal(c journalConfig) *journal {
	j := &journal{
		journalConfig: c, queue: make(chan *entry, journalQueue),
		closing: make(chan struct{}), ended: make(chan struct{}),
	}
	j.timeout = cmp.Or(j.timeout, callTimeout)
	j.link.again = j.takeUp
	j.flush = newFlush(j)
	j.ctx, j.cancel = context.WithCancel(context.Background())
	go j.write()
	return j
}

// commit writes a batch and says what came of it. A claim has one commit at a time.
func (j *journal) commit(ctx context.Context, b *Batch) error {
	return j.put(ctx, b, func(*entry) {})
}

// release gives a claim back as it was claimed, or because its next task waits for a slot, unless something was asked of the run in the
// meantime.
func (j *journal) release(ctx context.Context, c *Claim, waits bool, wake dagrun.Time) error {
	return j.put(ctx, &Batch{Claim: c, Seen: c.Inbox}, func(e *entry) { e.release, e.waits, e.wake = true, waits, wake })
}

// condemn ends a run as failed, whatever was asked of it in the meantime.
func (j *journal) condemn(ctx context.Context, c *Claim, reason string) error {
	return j.put(ctx, &Batch{Claim: c}, func(e *entry) { e.doom = storableReason(reason) })
}

func (j *journal) put(ctx context.Context, b *Batch, as func(*entry)) error {
	held := j.held.of(b.Claim)
	if held == nil {
		return ErrLeaseLost
	}
	if !held.committing.CompareAndSwap(false, true) {
		return errors.New("another commit of this claim is under way: one at a time")
	}
	defer held.committing.Store(false)
	e := newEntry(b, held)
	as(e)
	select {
	case <-j.closing:
		return ErrClosed
	default:
	}
	select {
	case j.queue <- e:
		return j.await(ctx, e)
	case <-j.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await waits for an entry in the queue. Once it was taken out, only its outcome counts.
func (j *journal) await(ctx context.Context, e *entry) error {
	select {
	case err := <-e.done:
		return err
	case <-j.ended: // it came too late, or was the last
		select {
		case err := <-e.done:
			return err
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		if e.state.CompareAndSwap(entryQueued, entryWithdrawn) {
			return ctx.Err()
		}
		return <-e.done
	}
}

// close writes what is in the queue and ends. What is left when ctx ends before, or when flushes fail for long, gets ErrClosed.
func (j *journal) close(ctx context.Context) error {
	j.closeOnce.Do(func() { close(j.closing) })
	j.untilWritten(ctx)
	j.cancel()
	<-j.ended
	_ = j.link.close(ctx) // only other links would, which borrow
	if n := j.dropped.Load(); n > 0 {
		return fmt.Errorf("close the journal: %d batches were not written: %w", n, ErrUnknown)
	}
	return nil
}

// untilWritten waits for the end of the goroutine, as long as there is hope.
func (j *journal) untilWritten(ctx context.Context) {
	look := time.NewTicker(hopeEvery)
	defer look.Stop()
	for {
		select {
		case <-j.ended:
			return
		case <-ctx.Done():
			return
		case <-look.C:
			if f := j.failure(); f.Failing() && time.Since(f.Since) >= answerPatience {
				return
			}
		}
	}
}

// write is the goroutine.
func (j *journal) write() {
	defer close(j.ended)
	for {
		e := j.next()
		if e == nil {
			return
		}
		j.pulse.beat()
		switch {
		case e.doom != "":
			p := e.whole()
			j.doom(p, e.doom, nil)
			j.conclude(p)
		case !e.fits():
			j.writeLarge(e)
		default:
			j.deliver(j.gather(e))
		}
	}
}

// next waits for something to write; nil once there will be nothing more.
func (j *journal) next() *entry {
	if e := j.carry; e != nil {
		j.carry = nil
		return e
	}
	for {
		if e := j.retake(); e != nil {
			return e
		}
		j.pulse.rest()
		select {
		case e := <-j.queue:
			if j.take(e) {
				return e
			}
		case <-j.nextRetake():
		case <-j.nextProbe():
			j.probe()
		case <-j.closing:
			select {
			case e := <-j.queue:
				if j.take(e) {
					return e
				}
			default:
				if len(j.aside) == 0 {
					return nil
				}
				select {
				case <-j.nextRetake():
				case <-j.ctx.Done(): // then they are retaken at once
				}
			}
		}
	}
}

// take says whether an entry is still wanted.
func (j *journal) take(e *entry) bool {
	if !e.state.CompareAndSwap(entryQueued, entryTaken) {
		return false
	}
	if j.held.of(e.batch.Claim) == nil {
		e.done <- ErrLeaseLost
		return false
	}
	return true
}

// gather adds what waits in the queue, as far as it fits into one flush. A run whose row changes and its child that ends
// do not go together: one statement changes a row once.
func (j *journal) gather(first *entry) []*piece {
	g := gathering{}
	g.add(first)
	for {
		select {
		case e := <-j.queue:
			if !j.take(e) {
				continue
			}
			if !g.fits(e) {
				j.carry = e
				return g.pieces
			}
			g.add(e)
		default:
			return g.pieces
		}
	}
}

// gathering is a flush in the making.
type gathering struct {
	pieces      []*piece
	rows, bytes int
	changed     map[RunID]bool // runs whose row changes
	told        map[RunID]bool // parents that will hear of a child's end
}

func (g *gathering) fits(e *entry) bool {
	if e.doom != "" || g.rows+e.rows > flushRowsMax || g.bytes+e.bytes > flushBytesMax {
		return false
	}
	p := e.whole()
	return !(p.tells() && g.changed[e.batch.Claim.Parent]) && !(p.changes() && g.told[e.batch.Claim.Run])
}

func (g *gathering) add(e *entry) {
	p := e.whole()
	g.pieces = append(g.pieces, p)
	g.rows, g.bytes = g.rows+e.rows, g.bytes+e.bytes
	if p.changes() {
		if g.changed == nil {
			g.changed = map[RunID]bool{}
		}
		g.changed[e.batch.Claim.Run] = true
	}
	if p.tells() {
		if g.told == nil {
			g.told = map[RunID]bool{}
		}
		g.told[e.batch.Claim.Parent] = true
	}
}

// writeLarge writes an entry in pieces, as far as they are taken.
func (j *journal) writeLarge(e *entry) {
	for _, p := range e.pieces() {
		if j.deliver([]*piece{p}); p.err != nil {
			return
		}
	}
}

// conclude tells who waits, once the last piece is written or one was not, and keeps account of the claim.
func (j *journal) conclude(p *piece) {
	e := p.entry
	if errors.Is(p.err, errAside) {
		j.setAside(e)
		return
	}
	if p.err == nil {
		e.held.acked, e.held.acted = max(e.held.acked, p.highest()), e.held.acted || e.acts()
		if !p.last {
			return
		}
		e.held.notes += int64(len(e.batch.Records.Notes))
		e.held.calmed = e.held.calmed || p.calms()
		if e.ends() {
			j.held.remove(e.batch.Claim)
		}
	}
	if errors.Is(p.err, ErrClosed) {
		j.dropped.Add(1)
	}
	if errors.Is(p.err, ErrLeaseLost) || errors.Is(p.err, ErrRefused) {
		j.held.forfeit(e.batch.Claim)
	}
	e.done <- p.err
}

// Commit writes what a drive decided, all of it or nothing. It blocks until the outcome is known:
//
//   - nil: durable. Perform the actions. A batch with Leave or Result has given the claim back.
//   - ErrLeaseLost: the claim is gone. Kill what runs, forget the run.
//   - ErrInboxMoved: only of a batch that gives the claim back. ReadMail, Step, Commit again.
//   - ErrRefused: the database cannot take a record. The run was ended; kill what runs, forget it.
//   - ErrClosed: the session was closed. With ErrUnknown, the batch may have been written.
//   - ctx's error: only while the batch waited for its turn. Nothing was written.
//
// While the database is away it goes on trying, until the session is lost or closed. A claim has one Commit at a time:
// a second one meanwhile is an error. The batch must not be changed before Commit returns.
func (s *Session) Commit(ctx context.Context, b *Batch) error {
	if err := s.journal.commit(ctx, b); err != nil {
		return fmt.Errorf("commit run %d: %w", b.Claim.Run, err)
	}
	return nil
}

// Release gives a run back before its drive has committed anything. Where nothing had happened of it before, it is as if it had
// never been claimed, but for its epoch. It counts as no loss, and controls that came in the meantime stay for the next driver.
// waits says that its next task waits for a slot: a worker without a free one leaves it, so it is refused with ErrInboxMoved where
// something was asked since the claim. At wake something of it is due all the same; 0: nothing is. Other errors are as of Commit.
func (s *Session) Release(ctx context.Context, c *Claim, waits bool, wake dagrun.Time) error {
	if err := s.journal.release(ctx, c, waits, wake); err != nil {
		return fmt.Errorf("release run %d: %w", c.Run, err)
	}
	return nil
}

// Condemn ends a run that nobody can drive as failed, for this reason: its open tasks are canceled, what is asked of it is
// refused, who waits for it is told. Where Definition could not read its DAG, the next look puts it away for others: a program of a
// newer version may have written that DAG. Errors are as of Commit.
func (s *Session) Condemn(ctx context.Context, c *Claim, why error) error {
	if _, unread := errors.AsType[unreadableError](why); unread {
		s.x.addUnreadable(c, why)
		return nil
	}
	if err := s.journal.condemn(ctx, c, "internal: "+why.Error()); err != nil {
		return fmt.Errorf("condemn run %d: %w", c.Run, err)
	}
	return nil
}

// An application may keep a transaction open in which it asked something of a run, and with it the run's row. That run's
// records wait for it; those of all others must not. So a flush waits for a lock only briefly (pglink.AsFlush), and what has to wait
// longer is set aside: with its entry, until a look says that the row is free.

// Pauses between looks at a run that somebody holds.
const (
	firstAsidePause   = 50 * time.Millisecond
	longestAsidePause = time.Second
)

// askHolderAfter is how long records wait before the server is asked for whom.
const askHolderAfter = time.Second

var (
	whoHolds     = sql.Named("queue/holder")
	whichAreFree = sql.Named("queue/free_runs")
	errAside     = errors.New("somebody else holds the run's row")
)

// partFrom takes out of a flush what somebody else holds, and says whether that was anything. Pieces of a large entry
// stay: what was written of it must go on in order.
func (j *journal) partFrom(pieces []*piece) (some bool) {
	for _, p := range pieces {
		if p.settled || !p.entry.fits() || !p.changes() || j.isFree(p.entry) {
			continue
		}
		p.settle(errAside)
		some = true
	}
	return some
}

// isFree says whether the rows that an entry changes can be locked now. Where nobody answers the flush finds out.
func (j *journal) isFree(e *entry) bool {
	rows := []int64{int64(e.batch.Claim.Run)}
	if parent := e.batch.Claim.Parent; parent != 0 {
		rows = append(rows, int64(parent))
	}
	free := len(rows)
	_, err := j.try(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, whichAreFree, rows).Scan(&free)
	})
	return err != nil || free == len(rows)
}

// setAside keeps an entry until its rows are free.
func (j *journal) setAside(e *entry) {
	e.pause = min(max(2*e.pause, firstAsidePause), longestAsidePause)
	e.due = time.Now().Add(e.pause)
	if e.aside.IsZero() {
		e.aside = time.Now()
	}
	j.aside = append(j.aside, e)
	j.tellAside()
}

// tellAside lets others know what waits, and for whom.
func (j *journal) tellAside() {
	if len(j.aside) == 0 {
		j.health.setAside(Aside{})
		return
	}
	first := slices.MinFunc(j.aside, func(a, b *entry) int { return a.aside.Compare(b.aside) })
	j.health.setAside(Aside{Since: first.aside, Run: first.batch.Claim.Run, Runs: len(j.aside), Holder: first.holder})
}

// retake is an entry that was set aside and may go now, or whose claim is gone; nil for none.
func (j *journal) retake() *entry {
	for i, e := range j.aside {
		if time.Now().Before(e.due) && j.ctx.Err() == nil {
			continue
		}
		j.aside = slices.Delete(j.aside, i, i+1)
		j.tellAside()
		if j.ctx.Err() != nil || j.held.of(e.batch.Claim) == nil || j.isFree(e) {
			return e
		}
		if time.Since(e.aside) >= askHolderAfter {
			e.holder = j.holderOf(e)
		}
		j.setAside(e)
		return nil
	}
	return nil
}

// holderOf tells who holds what entries wait for; "" where the server does not tell.
func (j *journal) holderOf(entries ...*entry) string {
	var runs []int64
	for _, e := range entries {
		runs = append(runs, int64(e.batch.Claim.Run))
		if e.batch.Claim.Parent != 0 {
			runs = append(runs, int64(e.batch.Claim.Parent))
		}
	}
	var holder string
	_, _ = j.try(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, whoHolds, pgx.StrictNamedArgs{"worker": j.worker, "runs": runs}).Scan(&holder)
	})
	return holder
}

// withHolder adds to an error who holds what the flush waited for, once it fails for a while.
func (j *journal) withHolder(pieces []*piece, err error) error {
	if f := j.health.failure(); !isLockTimeout(err) || !f.Failing() || time.Since(f.Since) < askHolderAfter {
		return err
	}
	entries := make([]*entry, len(pieces))
	for i, p := range pieces {
		entries[i] = p.entry
	}
	if holder := j.holderOf(entries...); holder != "" {
		return fmt.Errorf("%w: %s", err, holder)
	}
	return err
}

// nextRetake fires when it is time to look again; never, while nothing is set aside.
func (j *journal) nextRetake() <-chan time.Time {
	if len(j.aside) == 0 {
		return nil
	}
	first := slices.MinFunc(j.aside, func(a, b *entry) int { return a.due.Compare(b.due) })
	return time.After(time.Until(first.due))
}
