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

// firstPatience bounds the first statements of a connection: a pooler takes as many connections as come, and lets those it
// has no server for wait.
const firstPatience = 5 * time.Second

var setParams = sql.Named("pglink/set")

var (
	// ErrPooled says that a pooler lends connections by the transaction, where they must keep their session.
	ErrPooled = errors.New("a pooler in transaction mode stands between the worker and the server, and its connections must keep their session")
	// ErrWaiting says that a pooler took a connection, and has no server connection free for it.
	ErrWaiting = errors.New("waiting for a connection of the pooler")
)

// WaitingError is ErrWaiting with how many connections the same attempt did get.
type WaitingError struct{ Lent int }

func (e *WaitingError) Error() string { return ErrWaiting.Error() }

// Is makes errors.Is work.
func (e *WaitingError) Is(target error) bool { return target == ErrWaiting }

// way keeps what this process found out about the connections to a database, so that it asks once.
type way struct {
	refuses atomic.Bool   // a pooler refuses our parameters at the start
	found   atomic.Int32  // a Pooler and one; 0: nobody has looked
	stale   atomic.Bool   // found is a guess, or old: a connection that must keep its session looks again
	turn    chan struct{} // holds one token: one looks at a time, which takes two connections
}

// ways by what leads there.
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

// LookAgain has the next DialSession to where config leads look anew how a pooler lends: it may have been set up otherwise.
func LookAgain(config *pgx.ConnConfig) { wayOf(config).stale.Store(true) }

// IsPooled says whether this process has found a pooler in transaction mode where config leads.
func IsPooled(config *pgx.ConnConfig) bool {
	w := wayOf(config)
	found, _ := w.known()
	return found == TransactionPooler && !w.stale.Load()
}

func (w *way) known() (Pooler, bool) {
	n := w.found.Load()
	return Pooler(max(n-1, 0)), n > 0
}

// knownFor is known, but a session is given nothing that is stale.
func (w *way) knownFor(session bool) (Pooler, bool) {
	found, known := w.known()
	return found, known && !(session && w.stale.Load())
}

// learns says whether err is the news that our parameters are refused at the start.
func (w *way) learns(err error) bool {
	name, refused := RefusedParameter(err)
	if _, mine := ours[name]; !refused || !mine {
		return false
	}
	w.refuses.Store(true)
	return true
}

// settle finds out how conn is lent, and sets params where the server did not get them at the start, or may not have.
func (w *way) settle(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig, params map[string]string, session bool) (Pooler, error) {
	bounded, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	found, err := w.look(bounded, conn, config, session)
	if err == nil && found == SessionPooler {
		err = w.set(bounded, conn, params)
	}
	return found, err
}

// set is one round trip.
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

// late says whether an error is that nothing was answered in time.
func late(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// look finds out, once, what stands between conn and the server. Where a pooler has no second connection for that, the guess
// is transaction mode, in which nothing is set. A session is given no guess.
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

// find asks who serves conn: a server announces its process at connect, and a pooler made up another one.
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
