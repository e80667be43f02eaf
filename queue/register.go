package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
// work with is refused before anything is written: ErrPooled, a *migrations.VersionError, or an *Error that names the role
// which the user lacks.
func (s *Store) Register(ctx context.Context, w Worker) (*Session, error) {
	if err := w.complete(); err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	claims := s.newLink(steady(s.connConfig(appName(w.ID))))
	sent, err := s.enter(ctx, &w, claims)
	if err != nil {
		err = lacks(err, "lacks the role "+roleWorker, roleWorker, claims.config.User)
		return nil, errors.Join(said(fmt.Sprintf("register worker %s", w.ID), err), claims.close(ctx))
	}
	session := newSession(s, w, claims, sent)
	if err := session.take(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("register worker %s: %w", w.ID, err), session.Close(ctx))
	}
	return session, nil
}

// enter announces a worker to a database that it can work with, and says when.
func (s *Store) enter(ctx context.Context, w *Worker, claims *link) (sent time.Duration, err error) {
	if err := s.check(ctx, claims); err != nil {
		return 0, err
	}
	sent = boottime.Now()
	return sent, s.announce(ctx, w)
}

// check refuses a schema of another version, and connections that do not keep their session, before anything is written.
// It uses a connection that the session needs anyway.
func (s *Store) check(ctx context.Context, l *link) error {
	return l.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		found, err := pglink.FindPooler(ctx, conn, uint32(l.server.pid), l.dial)
		if err != nil {
			return err
		}
		if found == pglink.TransactionPooler {
			return ErrPooled
		}
		return migrations.Check(ctx, conn)
	})
}

func newSession(s *Store, w Worker, claims *link, sent time.Duration) *Session {
	config := claims.config
	session := &Session{
		store: s, worker: w, kind: kindOf(&w), held: newHoldings(),
		claims: claims, lease: s.newLink(config), reads: s.newLink(config), chunks: newChunkLink(s, w.ID),
		peers: newObserver(boottime.Now), lanes: newLanes(), sweeps: newSweeps(boottime.Now, s.newLink(config)), beat: newHeartbeat(w.TTL, sent), hearing: newHearing(s, w.channel()),
		polling: make(chan struct{}, 1), chores: chores{now: boottime.Now}, closeLimit: closeLimit,
	}
	session.claims.again = session.claims.endFormer
	session.lease.again = func(context.Context, *pgx.Conn) error { // behind it may be a server that was promoted, and lacks the end of what its predecessor had
		session.sweeps.doubt()
		return nil
	}
	session.journal = newJournal(journalConfig{
		worker: w.ID, name: w.Name, config: s.connConfig(appName(w.ID)), prepare: s.prepare, held: session.held, flushed: s.meter.Flushed,
		lost: func() { _ = session.lost() }, doubt: session.sweeps.doubt,
	})
	session.held.doubt = session.sweeps.doubt
	session.polling <- struct{}{}
	return session
}

// take queues the runs of those that the worker replaces.
func (s *Session) take(ctx context.Context) error {
	for _, id := range s.worker.Replaces {
		if _, err := s.reap(ctx, id, nil); err != nil {
			return fmt.Errorf("replace worker %s: %w", id, err)
		}
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
		return fmt.Errorf("an earlier session of it ended: use an id that is new: %w", ErrLeaseLost)
	}
	return err
}

func (w *Worker) row() pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"worker": w.ID, "name": w.Name, "host": w.Host, "boot": w.BootID, "pid": w.PID, "version": w.Version,
		"labels": w.Labels, "queues": w.Queues, "offers": w.Offers, "slots": w.Slots, "containment": w.Containment,
		"ttl": w.TTL.Milliseconds(), "channel": w.channel(), "kind": kindOf(w),
	}
}
