package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

// Session is a worker's connection to its runs in Postgres. The package comment says what its user must call, and when.
type Session struct {
	store        *Store
	installation string // installation that the worker registered in
	worker       Worker
	held         *claimSet
	x            *exchange // shared by claimer, lookout, janitor and sweeper

	claimer     *claimer       // for Poll
	lookout     *lookout       // for Look
	janitor     *janitor       // for DoChores
	sweeper     *sweeper       // for Sweep
	journal     *journal       // for Commit, Release and FailRun
	lease       *dedicatedConn // for Renew, which must not wait for anything else
	reads       *dedicatedConn // for Load and ReadMail
	chunks      *dedicatedConn // for AppendLogs
	beat        *heartbeat
	listener    *sessionListener
	end         ending
	permitCalls atomic.Int64 // calls of Permits so far
	leaving     pulse        // how long Close has waited for a statement by which it gives claims back

	closeLimit time.Duration // for a Close without a deadline
}

// ending keeps why a session does nothing more.
type ending struct {
	mu   sync.Mutex
	err  error
	once sync.Once
	done error // result of the one Close
}

// set records err as the reason why the session has ended. If there is a reason already, that stays, and set returns false.
func (e *ending) set(err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.err == nil
	if first {
		e.err = err
	}
	return first
}

func (e *ending) get() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// ID returns the worker's id.
func (s *Session) ID() uuid.UUID { return s.worker.ID }

// Database names the session's database for people, as user@host/database, with the port behind the host if it is not 5432.
func (s *Session) Database() string {
	c := s.store.direct
	host := c.Host
	if c.Port != defaultPort {
		host = fmt.Sprint(host, ":", c.Port)
	}
	return fmt.Sprintf("%s@%s/%s", c.User, host, c.Database)
}

const defaultPort = 5432

// lost ends the session, because another worker took this worker for dead. It forfeits all claims, and the session writes nothing
// more. It returns the error for the caller to pass on, which is ErrLeaseLost. It may be called again.
func (s *Session) lost() error {
	err := fmt.Errorf("worker %s: %w", s.worker.ID, ErrLeaseLost)
	if s.end.set(err) && s.store.meter.FenceLost != nil {
		s.store.meter.FenceLost()
	}
	s.held.forfeitAll()
	return err
}

// newToken returns a channel that holds one token: see take.
func newToken() chan struct{} {
	token := make(chan struct{}, 1)
	token <- struct{}{}
	return token
}

// alone makes call while it holds token, so that no other call with the same token runs at the same time. It waits for the token
// until ctx ends. If the session has ended, it returns the reason instead.
func (s *Session) alone(ctx context.Context, token chan struct{}, call func() error) error {
	if err := take(ctx, token); err != nil {
		return err
	}
	defer func() { token <- struct{}{} }()
	if err := s.end.get(); err != nil {
		return err
	}
	return call()
}

// take takes the token out of the channel. It waits until the token is there, and returns an error if ctx ends first. The caller
// puts the token back.
func take(ctx context.Context, token chan struct{}) error {
	select {
	case <-token:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("another call is under way: %w", ctx.Err())
	}
}

// appName returns the application_name of a worker's connections. Other workers find and end the connections by it when the
// worker is lost.
func appName(worker uuid.UUID) string { return "oarlock/" + worker.String() }

// steady returns a copy of c for connections with statements that look for few rows among many: the first due run, or the few
// timers that have come due. Their plans must not depend on statistics, which are minutes old in a queue that fills in seconds. A
// statement on such a connection that sorts must write its ORDER BY so that no index offers that order. Otherwise its plan walks
// through all of that index.
func steady(c *pgx.ConnConfig) *pgx.ConnConfig {
	c = c.Copy()
	pglink.AsSteady(c)
	return c
}

var (
	registerWorker = sql.Named("queue/register")
	isRegistered   = sql.Named("queue/registered")
)

// MinTTL is the shortest TTL of a lease. With a shorter one, a renewal that is a little late would end the lease.
const MinTTL = 300 * time.Millisecond

// Register registers a worker, and returns the session through which the worker claims and writes. The caller closes the session.
// The same worker may be registered again as long as it lives; with the ID of a worker that has ended, Register returns
// ErrLeaseLost. Before Register returns, it queues the runs of the workers that w replaces.
//
// If the worker could not work with the database, Register returns an error before it writes anything: ErrPooled, a *ShortError,
// a *migrations.VersionError, a *migrations.CopyError, or an *Error that names the role that the user lacks.
func (s *Store) Register(ctx context.Context, w Worker) (*Session, error) {
	if err := w.complete(); err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	links := s.newSessionConns(w.ID)
	entrance, err := s.enter(ctx, &w, links)
	if err != nil {
		err = wrapPermissionError(ctx, s.pool, err, "lacks the role "+roleWorker, roleWorker)
		err = errors.Join(wrapError(fmt.Sprintf("register worker %s", w.ID), err), links.close(ctx))
		if _, short := errors.AsType[*ShortError](err); short && s.ownsPool {
			s.pool.Reset() // other programs may need the connections that the pool holds
		}
		return nil, err
	}
	session := newSession(s, w, links, entrance)
	if err := session.replace(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("register worker %s: %w", w.ID, err), session.Close(ctx))
	}
	return session, nil
}

// entrance is the start of a session: its installation, and the time just before its worker was registered.
type entrance struct {
	installation string
	sent         time.Duration
}

// enter registers a worker, after check has accepted the database. It connects the connections in l, and leaves them open even
// after an error.
func (s *Store) enter(ctx context.Context, w *Worker, l *sessionConns) (e entrance, err error) {
	pglink.LookAgain(s.direct) // the pooler may have other settings now
	if e.installation, err = s.check(ctx, l); err != nil {
		return e, err
	}
	e.sent = boottime.Now()
	return e, s.announce(ctx, w)
}

// check returns the id of the installation in the database, or an error if the worker cannot work there. It refuses connections
// that do not keep their session, too few connections, a schema of another version, and a database that may be a copy. Only after
// all that, vouch records in the database that the installation is served here.
//
// check leaves the session's connections open: a worker that got only some of them could claim runs that it cannot read. The
// caller closes them after an error.
func (s *Store) check(ctx context.Context, l *sessionConns) (installation string, err error) {
	if _, err := l.claims.reach(ctx); err != nil {
		return "", s.unreached(err)
	}
	pooler := l.claims.pooler
	occupying, cancel := context.WithCancel(ctx)
	defer cancel()
	var got gains
	var beside sync.WaitGroup
	beside.Go(func() { got = s.occupy(occupying, l, pooler) })
	var i *migrations.Installation
	err = l.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		if err := migrations.Check(ctx, conn); err != nil {
			return err
		}
		i, err = s.recognise(ctx, conn)
		return err
	})
	if err != nil {
		cancel()
	}
	beside.Wait()
	if err != nil {
		return "", err
	}
	err = l.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.suffices(ctx, conn, pooler, got); err != nil {
			return err
		}
		return vouch(ctx, conn, i)
	})
	if err != nil {
		return "", err
	}
	s.memory.Remember(i.ID, addressesOf(s.direct))
	return i.ID, nil
}

// newSession puts together the session of a registered worker, with its connections l, and starts its journal and its listener.
func newSession(s *Store, w Worker, l *sessionConns, e entrance) *Session {
	x := newExchange()
	session := &Session{
		store: s, installation: e.installation, worker: w, held: newClaimSet(), x: x,
		lease: l.lease, reads: l.reads, chunks: l.chunks, beat: newHeartbeat(w.TTL, e.sent), listener: newSessionListener(s, w.channel()), closeLimit: closeLimit,
	}
	session.claimer, session.lookout = newClaimer(session, l.claims, x), newLookout(session, l, x)
	session.janitor, session.sweeper = newJanitor(session, l.looks, x), newSweeper(session, l.sweeps, x)
	l.share()
	l.claims.again = session.goOn
	for _, other := range l.all() {
		if other != l.claims {
			other.known = session.isStillIts
		}
	}
	l.chunks.again = l.chunks.endFormer // a chunk on its way there would be stored after chunks that are sent again
	// The new connection may lead to a promoted server, which lacks the last commits of its predecessor.
	l.lease.again = func(context.Context, *pgx.Conn) error {
		x.doubt()
		return nil
	}
	session.journal = newJournal(journalConfig{
		worker: w.ID, name: w.Name, conn: l.journal, held: session.held, flushed: s.meter.Flushed,
		lost: func() { _ = session.lost() }, doubt: x.doubt,
	})
	session.held.doubt = x.doubt
	return session
}

// replace queues the runs of the workers named in Worker.Replaces. It stops at the first error.
func (s *Session) replace(ctx context.Context) error {
	for _, id := range s.worker.Replaces {
		lost, err := s.sweeper.reap(ctx, id, nil)
		if err != nil {
			return fmt.Errorf("replace worker %s: %w", id, err)
		}
		s.store.meter.requeued(0, lost.Runs)
	}
	return nil
}

// complete fills in the fields of w that are not set: an id, the default TTL, empty lists instead of nil. With Only, it replaces
// Queues by a name that no queue has. It returns an error for a TTL below MinTTL and for negative Slots, which the database would
// refuse.
func (w *Worker) complete() error {
	if w.ID == uuid.Nil {
		w.ID = uuid.New()
	}
	if w.TTL == 0 {
		w.TTL = DefaultTTL
	}
	switch {
	case w.TTL < MinTTL:
		return fmt.Errorf("a TTL of %v: at least %v", w.TTL, MinTTL)
	case w.Slots < 0:
		return fmt.Errorf("%d slots: not less than 0", w.Slots)
	}
	if w.Labels == nil {
		w.Labels = map[string]string{}
	}
	w.Queues = append([]string{}, w.Queues...) // a nil slice would be stored as null
	if w.Only != 0 {
		w.Queues = []string{noQueue}
	}
	w.Offers = append([]string{}, w.Offers...)
	return nil
}

// channel returns the name of the worker's notification channel.
func (w *Worker) channel() string {
	return "oarlock_" + strings.ReplaceAll(w.ID.String(), "-", "")
}

// announce writes the worker's row and its fences. If the worker's row exists already, announce does not write it again. It
// returns ErrLeaseLost if an earlier session of the same worker id has ended, because such a worker cannot come back. If the
// reply is lost, it finds out whether the row is there.
func (s *Store) announce(ctx context.Context, w *Worker) error {
	alive := func(ctx context.Context) (ok bool, err error) {
		err = s.pool.QueryRow(ctx, isRegistered, w.ID).Scan(&ok)
		return ok, err
	}
	err := pglink.Do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, err := s.pool.Exec(ctx, registerWorker, w.row())
		return err
	}, alive)
	if err != nil {
		return err
	}
	ok, err := alive(ctx)
	if err == nil && !ok {
		if err := migrations.Check(ctx, s.pool); err != nil { // the schema may have been migrated since check
			return err
		}
		return fmt.Errorf("an earlier session of it ended: use an id that is new: %w", ErrLeaseLost)
	}
	return err
}

func (w *Worker) row() pgx.StrictNamedArgs {
	var only *RunID // nil: the worker serves lanes
	if w.Only != 0 {
		only = &w.Only
	}
	return pgx.StrictNamedArgs{
		"worker": w.ID, "name": w.Name, "host": w.Host, "boot": w.BootID, "pid": w.PID, "version": w.Version, "schema": migrations.MaxVersion,
		"labels": w.Labels, "queues": w.Queues, "offers": w.Offers, "slots": w.Slots, "containment": w.Containment,
		"ttl": w.TTL.Milliseconds(), "channel": w.channel(), "only": only,
	}
}

var (
	drainWorker = sql.Named("queue/drain")
	leaveFleet  = sql.Named("queue/leave")
)

// Drain records that this worker claims nothing more. It keeps its claims, goes on with them, and must still be closed. It
// returns ErrLeaseLost if another worker took this one for dead; the session has ended then.
func (s *Session) Drain(ctx context.Context) error {
	if err := s.end.get(); err != nil {
		return err
	}
	err := s.lease.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, drainWorker, s.worker.ID)
		if err == nil && tag.RowsAffected() == 0 {
			return s.lost()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}

// closeLimit bounds a Close without a deadline, because a database that is away may stay away.
const closeLimit = 20 * time.Second

// Close writes the batches that wait, gives back the claims that the worker still holds, removes the worker from the list of live
// workers, and closes the session's connections. Kill everything that the worker still runs before you call it. A ctx without a
// deadline gets 20 seconds. After an error other workers find out within a TTL that this worker is gone. Every later call returns
// the result of the first.
func (s *Session) Close(ctx context.Context) error {
	s.end.once.Do(func() {
		ctx, cancel := bounded(ctx, s.closeLimit)
		defer cancel()
		s.end.done = s.close(ctx)
	})
	return s.end.done
}

func (s *Session) close(ctx context.Context) error {
	wasLost := errors.Is(s.end.get(), ErrLeaseLost)
	var errs []error
	s.end.set(fmt.Errorf("session of worker %s: %w", s.worker.ID, ErrClosed))
	errs = append(errs, s.closeJournal(ctx))
	if !wasLost {
		errs = append(errs, s.leave(ctx))
	}
	s.held.forfeitAll()
	errs = append(errs, s.closeRest(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the session of worker %s: %w", s.worker.ID, err)
	}
	return nil
}

// closeRest closes the listener and all connections but the journal's, at the same time. It cuts off chores, sweeps and looks
// that are under way. A look that uses the connection for reads ends by its own timeout, or when ctx ends.
func (s *Session) closeRest(ctx context.Context) error {
	s.lookout.conn.end()
	s.sweeper.conn.end()
	var closing sync.WaitGroup
	closing.Go(s.listener.close)
	err := closeConns(ctx, s.claimer.conn, s.lookout.conn, s.sweeper.conn, s.lease, s.reads, s.chunks)
	closing.Wait()
	return err
}

// closeJournal closes the journal within half of the time that ctx has left. The other half is for leave, because a database that
// takes no records may still end the session.
func (s *Session) closeJournal(ctx context.Context) error {
	if deadline, some := ctx.Deadline(); some {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	return s.journal.close(ctx)
}

// leave ends the lease and gives back the remaining claims, in one transaction, so that other workers find no run without a
// fence. It waits for a poll under way. The first statement deletes the fences, so that the second one sees every claim. If the
// database cannot write, for example on a full disk, leave ends the lease alone, and still returns the error.
func (s *Session) leave(ctx context.Context) error {
	s.leaving.beat()
	defer s.leaving.rest()
	if err := take(ctx, s.claimer.polling); err != nil {
		return err
	}
	defer func() { s.claimer.polling <- struct{}{} }()
	err := s.claimer.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, leaveFleet, s.worker.ID); err != nil {
				return err
			}
			return s.releaseAll(ctx, tx)
		})
	})
	if err != nil {
		return fmt.Errorf("leave: %w", errors.Join(err, s.abandonFences(ctx, err)))
	}
	return nil
}

// abandonFences ends the lease without giving claims back, if refused, the error of leave, means that the database cannot write.
// Deleting the fences takes no room on a full disk. The next worker that looks finds the runs without a fence, and queues them.
// After any other error abandonFences does nothing.
func (s *Session) abandonFences(ctx context.Context, refused error) error {
	if pglink.Classify(refused) != pglink.Degraded {
		return nil
	}
	return s.claimer.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, leaveFleet, s.worker.ID)
		return err
	})
}

// releaseAll queues all claims of the worker again, in batches, at most requeueRounds of them.
func (s *Session) releaseAll(ctx context.Context, tx pgx.Tx) error {
	args := pgx.StrictNamedArgs{"worker": s.worker.ID, "batch": releaseBatch}
	for range requeueRounds {
		s.leaving.beat()
		n, err := release(ctx, tx, releaseAll, args)
		if err != nil || n < releaseBatch {
			return err
		}
	}
	return nil // the next sweep of another worker queues the rest
}
