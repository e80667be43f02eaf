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

// journalQueue bounds the batches that wait while a flush is under way. Further batches wait inside Commit.
const journalQueue = 1000

// hopeEvery is how often a closing journal checks whether flushes fail.
const hopeEvery = 20 * time.Millisecond

// journalConfig holds the dependencies of a journal.
type journalConfig struct {
	worker  uuid.UUID
	name    string         // of the worker, for people
	conn    *dedicatedConn // for the journal alone
	held    *claimSet
	flushed func(FlushTry) // called after every try; nil: nothing is called
	doubt   func()         // called if the database still holds a claim that the journal gave up
	lost    func()         // called when the worker's fence is found to be gone, after all claims were forfeited
	timeout time.Duration  // of one try of a flush; then the journal tries again; 0: callTimeout
}

// journal writes the batches of all drives of a worker. While one flush is in flight, the batches of the next one gather. If no
// flush is in flight, a batch is sent at once. One goroutine owns everything but the queue.
//
// A flush is one statement, so it is written as a whole or not at all, and sending it twice does no harm. But a flush must not
// take effect after a later one. So once the outcome of a flush is unknown, the journal ends its server process, and waits until
// that process is gone, before it sends anything else.
type journal struct {
	journalConfig

	queue chan *pendingCommit

	closing   chan struct{} // closed: the journal takes no more batches
	closeOnce sync.Once
	ctx       context.Context //nolint:containedctx // of the goroutine, not of a call; ended: give up what cannot be written
	cancel    context.CancelFunc
	ended     chan struct{} // closed once the goroutine has returned

	aside    []*pendingCommit // commits that wait for a row that another connection holds
	carry    *pendingCommit   // a commit that was taken from the queue but goes into the next flush
	flush    *flush           // the arguments of the flush under way; its buffers are reused
	prepared *pgx.Conn        // connection on which the statements of flushes are prepared
	flying   []*flushPart     // parts that are being written
	pulse    pulse            // how long the goroutine has waited for the server
	health   health
	probeAt  time.Time    // when to probe next; zero: not planned yet
	tries    atomic.Int64 // tries begun, even if they did not reach the database
	dropped  atomic.Int64 // batches given up when the journal closed
}

func newJournal(c journalConfig) *journal {
	j := &journal{
		journalConfig: c, queue: make(chan *pendingCommit, journalQueue),
		closing: make(chan struct{}), ended: make(chan struct{}),
	}
	j.timeout = cmp.Or(j.timeout, callTimeout)
	j.conn.again = j.takeUp
	j.flush = newFlush(j)
	j.ctx, j.cancel = context.WithCancel(context.Background())
	go j.write()
	return j
}

// commit writes a batch, waits for its outcome and returns it: see Session.Commit. A second commit of the same claim meanwhile
// returns an error.
func (j *journal) commit(ctx context.Context, b *Batch) error {
	return j.put(ctx, b, func(*pendingCommit) {})
}

// release gives a claim back as it was claimed. With waits, the run's next task waits for a slot, and wake is when something else
// of the run is due (0: nothing is). With waits, release returns ErrInboxMoved if anything was requested of the run since the
// claim.
func (j *journal) release(ctx context.Context, c *Claim, waits bool, wake dagrun.Time) error {
	return j.put(ctx, &Batch{Claim: c, Seen: c.Inbox}, func(e *pendingCommit) { e.release, e.waits, e.wake = true, waits, wake })
}

// fail ends a run as failed with the given reason, cut to a storable length. It does so even if something was requested of the
// run since the claim.
func (j *journal) fail(ctx context.Context, c *Claim, reason string) error {
	return j.put(ctx, &Batch{Claim: c}, func(e *pendingCommit) { e.failReason = storableReason(reason) })
}

func (j *journal) put(ctx context.Context, b *Batch, as func(*pendingCommit)) error {
	held := j.held.of(b.Claim)
	if held == nil {
		return ErrLeaseLost
	}
	if !held.committing.CompareAndSwap(false, true) {
		return errors.New("another commit of this claim is under way: one at a time")
	}
	defer held.committing.Store(false)
	e := newPendingCommit(b, held)
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

// await waits for the outcome of a commit and returns it. If ctx ends while the commit is still in the queue, await withdraws the
// commit and returns the error of ctx. Later the end of ctx no longer counts. If the journal ends without an outcome, await
// returns ErrClosed.
func (j *journal) await(ctx context.Context, e *pendingCommit) error {
	select {
	case err := <-e.done:
		return err
	case <-j.ended: // the commit came too late, or was the last one
		select {
		case err := <-e.done:
			return err
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		if e.state.CompareAndSwap(commitQueued, commitWithdrawn) {
			return ctx.Err()
		}
		return <-e.done
	}
}

// close writes the batches in the queue, and ends the journal and its connection. If ctx ends first, or flushes have failed for
// answerPatience, the callers of the remaining batches get ErrClosed. close then returns ErrUnknown, with the number of these
// batches.
func (j *journal) close(ctx context.Context) error {
	j.closeOnce.Do(func() { close(j.closing) })
	j.untilWritten(ctx)
	j.cancel()
	<-j.ended
	_ = j.conn.close(ctx) // it can only fail while another dedicatedConn borrows the connection
	if n := j.dropped.Load(); n > 0 {
		return fmt.Errorf("close the journal: %d batches were not written: %w", n, ErrUnknown)
	}
	return nil
}

// untilWritten returns once the goroutine has ended, ctx has ended, or flushes have failed for answerPatience.
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

// write is the goroutine: it writes one commit or flush after the other until the journal is closed.
func (j *journal) write() {
	defer close(j.ended)
	for {
		e := j.next()
		if e == nil {
			return
		}
		j.pulse.beat()
		switch {
		case e.failReason != "":
			p := e.whole()
			j.failRun(p, e.failReason, nil)
			j.conclude(p)
		case !e.fits():
			j.writeLarge(e)
		default:
			j.deliver(j.gather(e))
		}
	}
}

// next waits until there is a commit to write, and returns it. It looks at three places, in this order: j.carry, the commits set
// aside that are due again, and the queue. While it waits, it probes the database when a probe is due. It returns nil once the
// journal is closed and none of the three places has a commit left.
func (j *journal) next() *pendingCommit {
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
				case <-j.ctx.Done(): // retake then returns the commits at once
				}
			}
		}
	}
}

// take takes a commit from the queue, and reports whether it still has to be written. It returns false if the waiting caller has
// withdrawn the commit, or if the claim is lost. In the second case the caller gets ErrLeaseLost.
func (j *journal) take(e *pendingCommit) bool {
	if !e.state.CompareAndSwap(commitQueued, commitTaken) {
		return false
	}
	if j.held.of(e.batch.Claim) == nil {
		e.done <- ErrLeaseLost
		return false
	}
	return true
}

// gather returns first and further commits from the queue, each as one part, as many as fit into one flush. It does not wait for
// more. It leaves the first commit that does not fit in j.carry, for next. A flush never holds both a change of a parent's own
// row and the end of its child, which changes that row too: one statement can change a row only once.
func (j *journal) gather(first *pendingCommit) []*flushPart {
	g := flushBuilder{}
	g.add(first)
	for {
		select {
		case e := <-j.queue:
			if !j.take(e) {
				continue
			}
			if !g.fits(e) {
				j.carry = e
				return g.parts
			}
			g.add(e)
		default:
			return g.parts
		}
	}
}

// flushBuilder is a flush that is being put together.
type flushBuilder struct {
	parts       []*flushPart
	rows, bytes int
	changed     map[RunID]bool // runs with a change of their own row
	told        map[RunID]bool // parents that the flush tells about the end of a child
}

func (g *flushBuilder) fits(e *pendingCommit) bool {
	if e.failReason != "" || g.rows+e.rows > flushRowsMax || g.bytes+e.bytes > flushBytesMax {
		return false
	}
	p := e.whole()
	return !(p.tells() && g.changed[e.batch.Claim.Parent]) && !(p.changes() && g.told[e.batch.Claim.Run])
}

func (g *flushBuilder) add(e *pendingCommit) {
	p := e.whole()
	g.parts = append(g.parts, p)
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

// writeLarge writes a commit that is too large for one flush, one part after another. It stops at the first part that is not
// written. conclude has then told the waiting caller.
func (j *journal) writeLarge(e *pendingCommit) {
	for _, p := range e.parts() {
		if j.deliver([]*flushPart{p}); p.err != nil {
			return
		}
	}
}

// conclude passes on the outcome of a settled part. The waiting caller gets it once the last part is written, or any part has
// failed. If another connection holds the run's row, the caller gets nothing yet, and the commit is set aside.
//
// conclude also keeps the claim set up to date. After success it records in the held claim how much is durable, and removes a
// claim that was given back. After ErrLeaseLost or ErrRefused it forfeits the claim. It counts batches that end with ErrClosed in
// j.dropped.
func (j *journal) conclude(p *flushPart) {
	e := p.commit
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

// Commit writes a batch of a drive. It blocks until the outcome is known:
//
//   - nil: the batch is durable. Perform the actions. A batch with Leave or Result has given the claim back.
//   - ErrLeaseLost: the claim is gone. Kill everything of the run, and forget the run.
//   - ErrInboxMoved: only for a batch that gives the claim back. ReadMail, Step and Commit again.
//   - ErrRefused: the database cannot take a record, and the run was ended. Kill everything of the run, and forget the run.
//   - ErrClosed: the session was closed. If the error is also ErrUnknown, the batch may have been written.
//   - ctx's error: only while the batch waited for its turn. Nothing was written.
//   - Another error of the database: it refuses a record of the batch but takes others. The claim is still held: kill everything
//     of the run, and call FailRun.
//
// A batch is written as a whole or not at all, unless it is too large for one statement. Then it is written in parts, and after an
// error the first parts may be durable. The next driver can go on from there.
//
// While the database is away, Commit goes on trying until the session is lost or closed. A claim may have one Commit at a time: a
// second one meanwhile returns an error. The caller must not change the batch before Commit returns.
func (s *Session) Commit(ctx context.Context, b *Batch) error {
	if err := s.journal.commit(ctx, b); err != nil {
		return fmt.Errorf("commit run %d: %w", b.Claim.Run, err)
	}
	return nil
}

// Release gives a run back before its drive has committed anything. If nothing of the run had happened before the claim either,
// the run is afterwards as if it had never been claimed, except for its epoch. The drive does not count as a loss, and controls
// that came meanwhile are left to the next driver.
//
// waits means that the run's next task waits for a slot, so that a worker without a free slot does not claim it. Such a Release
// returns ErrInboxMoved if anything was requested of the run since the claim. wake is when something else of the run is due; 0
// means that nothing is. Other errors are those of Commit.
func (s *Session) Release(ctx context.Context, c *Claim, waits bool, wake dagrun.Time) error {
	if err := s.journal.release(ctx, c, waits, wake); err != nil {
		return fmt.Errorf("release run %d: %w", c.Run, err)
	}
	return nil
}

// FailRun ends a run that this worker cannot drive as failed, with why as the reason. Its open tasks are canceled, open requests
// to it are refused, and its parent run and other waiters are told. Errors are those of Commit.
//
// If why comes from Definition, which could not read the run's DAG, the run does not fail, because a newer version of the program
// may have written that DAG. FailRun then forfeits the claim and returns nil, and the next DoChores gives the run back for other
// workers.
func (s *Session) FailRun(ctx context.Context, c *Claim, why error) error {
	if _, unread := errors.AsType[unreadableError](why); unread {
		s.x.addUnreadable(c, why)
		return nil
	}
	if err := s.journal.fail(ctx, c, "internal: "+why.Error()); err != nil {
		return fmt.Errorf("fail run %d: %w", c.Run, err)
	}
	return nil
}

// An application may keep a transaction open in which it has requested something of a run. That transaction holds the run's row.
// The records of this run must wait for it, and the records of all other runs must not. So a flush waits for a lock only briefly
// (pglink.AsFlush). A commit that has to wait longer is set aside until a check finds that its rows are free.

// Pauses between checks whether a row is free.
const (
	firstAsidePause   = 50 * time.Millisecond
	longestAsidePause = time.Second
)

// askHolderAfter is how long a commit waits before the journal asks the server which connection holds the row.
const askHolderAfter = time.Second

var (
	whoHolds     = sql.Named("queue/holder")
	whichAreFree = sql.Named("queue/free_runs")
	errAside     = errors.New("another transaction holds the run's row")
)

// partFrom asks the server for each part without an outcome whether another connection holds its rows. It settles such parts with
// errAside, so that the flush goes on without them, and reports whether there were any. Parts of a large commit stay in the
// flush, because the parts of one commit must be written in order. So do parts that change no run's own row.
func (j *journal) partFrom(parts []*flushPart) (some bool) {
	for _, p := range parts {
		if p.settled || !p.commit.fits() || !p.changes() || j.isFree(p.commit) {
			continue
		}
		p.settle(errAside)
		some = true
	}
	return some
}

// isFree asks the server whether the rows of a commit's run and of its parent can be locked now. If the server does not answer,
// it returns true, and the flush finds out.
func (j *journal) isFree(e *pendingCommit) bool {
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

// setAside adds a commit to j.aside, because another transaction holds its rows. The commit is due again after a pause, which
// doubles each time, up to longestAsidePause.
func (j *journal) setAside(e *pendingCommit) {
	e.pause = min(max(2*e.pause, firstAsidePause), longestAsidePause)
	e.due = time.Now().Add(e.pause)
	if e.aside.IsZero() {
		e.aside = time.Now()
	}
	j.aside = append(j.aside, e)
	j.tellAside()
}

// tellAside publishes in j.health how many commits are set aside, and since when the oldest of them, with its run and the
// connection that holds the row.
func (j *journal) tellAside() {
	if len(j.aside) == 0 {
		j.health.setAside(Aside{})
		return
	}
	first := slices.MinFunc(j.aside, func(a, b *pendingCommit) int { return a.aside.Compare(b.aside) })
	j.health.setAside(Aside{Since: first.aside, Run: first.batch.Claim.Run, Runs: len(j.aside), Holder: first.holder})
}

// retake looks at the first commit in j.aside that is due. If its rows are free now, or its claim is lost, retake removes it from
// j.aside and returns it. If not, it sets the commit aside again, and returns nil. It also returns nil if no commit is due. Once
// the journal gives up, every commit is due, and is returned at once.
func (j *journal) retake() *pendingCommit {
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

// holderOf asks the server which connections hold the rows that commits wait for. It returns a text for people, or "" if the
// server does not say.
func (j *journal) holderOf(entries ...*pendingCommit) string {
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

// withHolder returns err. If err is a lock timeout and flushes have failed for askHolderAfter, it first asks the server which
// connections hold the rows of parts, and adds them to the error's text.
func (j *journal) withHolder(parts []*flushPart, err error) error {
	if f := j.health.failure(); !isLockTimeout(err) || !f.Failing() || time.Since(f.Since) < askHolderAfter {
		return err
	}
	entries := make([]*pendingCommit, len(parts))
	for i, p := range parts {
		entries[i] = p.commit
	}
	if holder := j.holderOf(entries...); holder != "" {
		return fmt.Errorf("%w: %s", err, holder)
	}
	return err
}

// nextRetake returns a channel that fires when the next commit is to be checked again. It is nil while no commit is set aside.
func (j *journal) nextRetake() <-chan time.Time {
	if len(j.aside) == 0 {
		return nil
	}
	first := slices.MinFunc(j.aside, func(a, b *pendingCommit) int { return a.due.Compare(b.due) })
	return time.After(time.Until(first.due))
}
