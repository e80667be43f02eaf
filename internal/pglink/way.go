package pglink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// firstPatience limits the first statements of a connection. A pooler accepts any number of connections, and makes a
// connection wait while there is no server connection for it.
const firstPatience = 5 * time.Second

var setParams = sql.Named("pglink/set")

var (
	// ErrPooled means that a pooler is in transaction mode although the connection must keep its session.
	ErrPooled = errors.New("a pooler in transaction mode stands between the worker and the server, and a worker's connections must keep their session")
	// ErrWaiting means that a pooler accepted a connection, but has no free server connection for it.
	ErrWaiting = errors.New("the pooler has no free connection")
)

// WaitingError is ErrWaiting, with the number of connections that the same attempt did get.
type WaitingError struct{ Lent int }

func (e *WaitingError) Error() string { return ErrWaiting.Error() }

// Is makes errors.Is match ErrWaiting.
func (e *WaitingError) Is(target error) bool { return target == ErrWaiting }

// way stores what this process has learned about the connections to a database, so that it looks only once.
type way struct {
	refuses atomic.Bool   // a pooler refuses this package's parameters at the start
	found   atomic.Int32  // the Pooler plus 1; 0: not known yet
	stale   atomic.Bool   // found is a guess, or old: a connection that must keep its session looks again
	turn    chan struct{} // holds one token: one goroutine looks at a time, because a look takes two connections
}

// ways holds a way for each destination.
var ways sync.Map

func wayOf(c *pgx.ConnConfig) *way {
	name := strings.Builder{}
	fmt.Fprintf(&name, "%q %q %q:%d", c.User, c.Database, c.Host, c.Port)
	for _, f := range c.Fallbacks {
		fmt.Fprintf(&name, " %q:%d", f.Host, f.Port)
	}
	fresh := &way{turn: make(chan struct{}, 1)}
	fresh.turn <- struct{}{}
	known, _ := ways.LoadOrStore(name.String(), fresh)
	return known.(*way) //nolint:forcetypeassert // nothing else is stored
}

// LookAgain makes the next DialSession to config's destination detect the pooler's mode again: its configuration may have
// changed.
func LookAgain(config *pgx.ConnConfig) { wayOf(config).stale.Store(true) }

// IsPooled reports whether this process has found a pooler in transaction mode at config's destination. It connects to nothing. It
// returns false if no connection was made yet, after LookAgain, and if the mode is only a guess.
func IsPooled(config *pgx.ConnConfig) bool {
	w := wayOf(config)
	found, _ := w.known()
	return found == TransactionPooler && !w.stale.Load()
}

// known returns the mode of the pooler, and false if it was not detected yet. The mode may be stale.
func (w *way) known() (Pooler, bool) {
	n := w.found.Load()
	return Pooler(max(n-1, 0)), n > 0
}

// knownFor is known, except that it also returns false for a stale mode if the connection must keep its session.
func (w *way) knownFor(session bool) (Pooler, bool) {
	found, known := w.known()
	return found, known && !(session && w.stale.Load())
}

// learns reports whether err is a refusal of this package's parameters at the start, and remembers the refusal.
func (w *way) learns(err error) bool {
	name, refused := RefusedParameter(err)
	if _, mine := ours[name]; !refused || !mine {
		return false
	}
	w.refuses.Store(true)
	return true
}

// settle detects the pooler's mode for conn, which was just opened, and returns it. Behind a pooler in session mode it sets params,
// which the server perhaps did not get at the start. session: conn must keep its session, so a guess of the mode does not do.
func (w *way) settle(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig, params map[string]string, session bool) (Pooler, error) {
	bounded, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	found, err := w.look(bounded, conn, config, session)
	if err == nil && found == SessionPooler {
		err = w.set(bounded, conn, params)
	}
	return found, err
}

// set sets the parameters params of conn in one round trip. It returns a *WaitingError if the pooler does not answer in time.
func (w *way) set(ctx context.Context, conn *pgx.Conn, params map[string]string) error {
	names := slices.Sorted(maps.Keys(params))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = params[name]
	}
	if len(names) == 0 {
		return nil
	}
	_, err := conn.Exec(ctx, setParams, pgx.QueryExecModeExec, names, values)
	if late(ctx, err) {
		return &WaitingError{}
	}
	if err != nil {
		return fmt.Errorf("set the parameters of a connection: %w", err)
	}
	return nil
}

// late reports whether an error means that no answer came in time.
func late(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// look returns the pooler's mode. It detects the mode at the first call, which may take a second connection, and remembers it. If
// the detection fails while conn is still open, look guesses transaction mode, in which nothing is set, and marks the guess as
// stale. With session it returns the error instead, and does not trust a stale mode. It returns a *WaitingError if another
// goroutine detects the mode until ctx ends.
func (w *way) look(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig, session bool) (Pooler, error) {
	if found, known := w.knownFor(session); known {
		return found, nil
	}
	select {
	case <-w.turn:
		defer func() { w.turn <- struct{}{} }()
	case <-ctx.Done():
		return NoPooler, &WaitingError{}
	}
	if found, known := w.knownFor(session); known {
		return found, nil
	}
	found, err := w.find(ctx, conn, config)
	switch {
	case err == nil:
		w.learn(found, false)
	case !session && !conn.IsClosed():
		found, err = TransactionPooler, nil
		w.learn(found, true)
	}
	return found, err
}

func (w *way) learn(found Pooler, stale bool) {
	w.found.Store(int32(found) + 1)
	w.stale.Store(stale)
}

// find detects whether there is a pooler, and its mode. It asks for the backend that serves conn: a server announces the backend's
// process ID at connect, and a pooler announces a made-up one. If there is a pooler, find opens a second connection, compares both
// by changesBackend, and closes it. It returns a *WaitingError if the pooler does not answer in time.
func (w *way) find(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig) (Pooler, error) {
	served, err := Backend(ctx, conn)
	switch {
	case late(ctx, err) && w.refuses.Load():
		return NoPooler, &WaitingError{}
	case err != nil:
		return NoPooler, fmt.Errorf("ask for the server process: %w", err)
	case served == conn.PgConn().PID() && !w.refuses.Load():
		return NoPooler, nil
	}
	other, err := w.connect(ctx, config.Copy())
	var changes bool
	if err == nil {
		defer HangUp(ctx, other)
		changes, err = changesBackend(ctx, conn, other, served)
	}
	switch {
	case late(ctx, err):
		return NoPooler, &WaitingError{Lent: 1}
	case err != nil:
		return NoPooler, fmt.Errorf("look how the pooler works: %w", err)
	case changes:
		return TransactionPooler, nil
	}
	return SessionPooler, nil
}
