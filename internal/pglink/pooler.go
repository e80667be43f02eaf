package pglink

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/sql"
)

// Pooler is the mode in which a pooler lends its server connections, if there is a pooler.
type Pooler int

// The modes of poolers.
const (
	NoPooler          Pooler = iota
	SessionPooler            // each client keeps one server connection until it leaves
	TransactionPooler        // each transaction may get another server connection, without the session state of the last one
)

// backendSQL is sent as one unnamed statement. A prepared statement would stay in one of the pooler's server connections,
// and be missing in the others.
var backendSQL = sql.Named("pglink/backend")

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Backend returns the process ID of the server backend that serves q.
func Backend(ctx context.Context, q querier) (pid uint32, err error) {
	err = q.QueryRow(ctx, backendSQL, pgx.QueryExecModeExec).Scan(&pid)
	return pid, err
}

// lookRounds is how often changesBackend looks for a changed backend. With other clients of the pooler one round may miss a
// change.
const lookRounds = 3

// changesBackend reports whether a pooler changes the server backend of a connection between statements, as in transaction mode. It
// sends statements on conn and other in turn. before is the backend that served conn last.
//
// In session mode each client keeps its own backend. In transaction mode the next statement gets the backend that was used last, or
// the one that was unused longest. Sooner or later one connection gets the backend that served the other before, or a new one.
func changesBackend(ctx context.Context, conn, other *pgx.Conn, before uint32) (bool, error) {
	for range lookRounds {
		served, err := Backend(ctx, other)
		if err != nil || served == before {
			return err == nil, err
		}
		for range 2 { // if two backends alternate, the second statement gets the other one
			if served, err = Backend(ctx, conn); err != nil || served != before {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// Get opens a connection on which the server has answered. giveBack gives it back. It may be set although err is not nil, and the
// caller must call it then too.
type Get = func(context.Context) (giveBack func(), err error)

// GetNew returns a Get that opens a new connection by DialSession each time. Its giveBack closes the connection.
func GetNew(config *pgx.ConnConfig, prepare Prepare) Get {
	return func(ctx context.Context) (func(), error) {
		conn, _, err := DialSession(ctx, config, prepare)
		if err == nil {
			_, err = Backend(ctx, conn)
		}
		if conn == nil {
			return nil, err
		}
		return func() { HangUp(ctx, conn) }, err
	}
}

// Lends calls all gets at once, and holds each connection until all gets have returned or patience is over. It then gives all
// connections back, and returns how many it got. refused is the reason why a connection was refused, in the server's words if there
// are any. It is nil if none was refused: a connection that was late, or that the pool was too small for, is not refused.
func Lends(ctx context.Context, patience time.Duration, gets ...Get) (lent int, refused error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var got atomic.Int32
	reasons := make(chan error, len(gets))
	var getting, holding sync.WaitGroup
	getting.Add(len(gets))
	for _, get := range gets {
		holding.Go(func() {
			giveBack, err := get(ctx)
			if err == nil {
				got.Add(1)
			} else if ctx.Err() == nil && !isShortage(err) {
				reasons <- err
			}
			if giveBack != nil {
				defer giveBack()
			}
			getting.Done()
			getting.Wait()
		})
	}
	holding.Wait()
	close(reasons)
	for reason := range reasons {
		if _, said := errors.AsType[*pgconn.PgError](reason); said || refused == nil {
			refused = reason
		}
	}
	return int(got.Load()), refused
}

// isShortage reports whether err only means that the pooler has no free connection.
func isShortage(err error) bool {
	r := RefusalOf(err)
	return r != nil && r.Pool || errors.Is(err, ErrWaiting)
}

// Limits of HangUp and ClosePool.
const (
	hangUpTimeout = 2 * time.Second
	hangUpRest    = 250 * time.Millisecond // after the end of ctx: a live server needs far less
)

// HangUp closes a connection, and waits up to hangUpTimeout until nothing of it is under way. After the end of ctx it waits only
// hangUpRest. The driver cancels a running statement over a second connection, and PgBouncer 1.18 crashes if the process ends in
// the middle of that.
func HangUp(ctx context.Context, conn *pgx.Conn) {
	bounded, cancel := outliving(ctx, hangUpTimeout, hangUpRest)
	defer cancel()
	_ = conn.Close(bounded)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-bounded.Done():
	}
}

// ClosePool closes a pool, and waits for that up to a second. After that the pool goes on closing in the background: a connection
// that was cut off in a lost network takes 15 s to close.
func ClosePool(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	timer := time.NewTimer(hangUpTimeout / 2)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}
