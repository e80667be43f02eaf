package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	registerWorker = sql.Named("queue/register")
	isRegistered   = sql.Named("queue/registered")
)

// MinTTL of a lease: below it a renewal that is a little late ends it.
const MinTTL = 300 * time.Millisecond

// Register announces a worker, and makes the session it claims and writes through. The same worker may be registered
// again as long as it lives. What it replaces is queued again before Register returns. A database that the worker could not
// work with is refused before anything is written: ErrPooled, a *ShortError, a *migrations.VersionError, a
// *migrations.CopyError, or an *Error that names the role which the user lacks.
func (s *Store) Register(ctx context.Context, w Worker) (*Session, error) {
	if err := w.complete(); err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	links := s.newLinks(w.ID)
	entrance, err := s.enter(ctx, &w, links)
	if err != nil {
		err = lacks(ctx, s.pool, err, "lacks the role "+roleWorker, roleWorker)
		err = errors.Join(said(fmt.Sprintf("register worker %s", w.ID), err), links.close(ctx))
		if _, short := errors.AsType[*ShortError](err); short && s.ownsPool {
			s.pool.Reset() // what it holds others may need
		}
		return nil, err
	}
	session := newSession(s, w, links, entrance)
	if err := session.replace(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("register worker %s: %w", w.ID, err), session.Close(ctx))
	}
	return session, nil
}

// entrance is how a session begins: in which installation, and when its worker was announced.
type entrance struct {
	installation string
	sent         time.Duration
}

// enter announces a worker to a database that it can work with.
func (s *Store) enter(ctx context.Context, w *Worker, l *links) (e entrance, err error) {
	pglink.LookAgain(s.direct) // a pooler may lend otherwise since
	if e.installation, err = s.check(ctx, l); err != nil {
		return e, err
	}
	e.sent = boottime.Now()
	return e, s.announce(ctx, w)
}

// check refuses connections that do not keep their session or are too few, a schema of another version, and what may be a copy,
// before anything is written. It returns the installation, and leaves the session's connections made: a worker that got only some of
// them could claim runs that it cannot read.
func (s *Store) check(ctx context.Context, l *links) (installation string, err error) {
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

func newSession(s *Store, w Worker, l *links, e entrance) *Session {
	x := newExchange()
	session := &Session{
		store: s, installation: e.installation, worker: w, held: newClaimSet(), x: x,
		lease: l.lease, reads: l.reads, chunks: l.chunks, beat: newHeartbeat(w.TTL, e.sent), hearing: newHearing(s, w.channel()), closeLimit: closeLimit,
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
	l.chunks.again = l.chunks.endFormer                      // what that was about to store would come after what is sent again
	l.lease.again = func(context.Context, *pgx.Conn) error { // behind it may be a server that was promoted, and lacks the end of what its predecessor had
		x.doubt()
		return nil
	}
	session.journal = newJournal(journalConfig{
		worker: w.ID, name: w.Name, link: l.journal, held: session.held, flushed: s.meter.Flushed,
		lost: func() { _ = session.lost() }, doubt: x.doubt,
	})
	session.held.doubt = x.doubt
	return session
}

// replace queues the runs of those that the worker replaces.
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

// complete fills in what may be left out, and refuses what the database would.
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
	w.Queues = append([]string{}, w.Queues...) // a null would be no array
	if w.Only != 0 {
		w.Queues = []string{noQueue}
	}
	w.Offers = append([]string{}, w.Offers...)
	return nil
}

// channel is where a worker is notified.
func (w *Worker) channel() string {
	return "oarlock_" + strings.ReplaceAll(w.ID.String(), "-", "")
}

// announce writes the worker's row and its fences. A row that is there already is found by its id, whoever wrote it.
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
		if err := migrations.Check(ctx, s.pool); err != nil { // it was migrated since
			return err
		}
		return fmt.Errorf("an earlier session of it ended: use an id that is new: %w", ErrLeaseLost)
	}
	return err
}

func (w *Worker) row() pgx.StrictNamedArgs {
	var only *RunID // nil: it serves lanes
	if w.Only != 0 {
		only = &w.Only
	}
	return pgx.StrictNamedArgs{
		"worker": w.ID, "name": w.Name, "host": w.Host, "boot": w.BootID, "pid": w.PID, "version": w.Version, "schema": migrations.MaxVersion,
		"labels": w.Labels, "queues": w.Queues, "offers": w.Offers, "slots": w.Slots, "containment": w.Containment,
		"ttl": w.TTL.Milliseconds(), "channel": w.channel(), "only": only,
	}
}
