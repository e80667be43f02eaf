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

// Pooler is how what stands between us and the server lends its connections.
type Pooler int

// What a look finds.
const (
	NoPooler          Pooler = iota
	SessionPooler            // each client has one for as long as it stays
	TransactionPooler        // each transaction may get another: nothing that a session keeps is there in the next one
)

// backendSQL is sent as one unnamed statement: one that is prepared would be left behind in, or missed by, the servers
// that a pooler lends.
var backendSQL = sql.Named("pglink/backend")

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Backend asks which process of the server serves.
func Backend(ctx context.Context, q querier) (pid uint32, err error) {
	err = q.QueryRow(ctx, backendSQL, pgx.QueryExecModeExec).Scan(&pid)
	return pid, err
}

// lookRounds is how often a backend is looked for that changed. Among other clients of a pooler one round may miss it.
const lookRounds = 3

// changesBackend asks both connections by turns who serves them. In session mode each client keeps its own backend. In
// transaction mode the next statement gets the backend that was used last, or longest ago: sooner or later one that served the
// other connection, or was not seen before.
func changesBackend(ctx context.Context, conn, other *pgx.Conn, before uint32) (bool, error) {
	for range lookRounds {
		served, err := Backend(ctx, other)
		if err != nil || served == before {
			return err == nil, err
		}
		for range 2 { // where two backends take turns, the second time is the other's turn
			if served, err = Backend(ctx, conn); err != nil || served != before {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// Get gets one connection that the server has answered on, and says how it is given back.
type Get = func(context.Context) (giveBack func(), err error)

// GetNew gets a connection of its own.
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

// Lends gets all connections at once, holds them until the last is there or patience is over, and says how many were. Where one was
// refused, refused says why, in the server's words if it has any. That a pool is too small, or that one came too late, is no reason.
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

// isShortage reports whether err says no more than that the pooler has no connection free.
func isShortage(err error) bool {
	r := RefusalOf(err)
	return r != nil && r.Pool || errors.Is(err, ErrWaiting)
}

// Bounds of HangUp and ClosePool.
const (
	hangUpTimeout = 2 * time.Second
	hangUpRest    = 250 * time.Millisecond // once the context has ended: a live server needs far less
)

// HangUp closes a connection and waits until nothing of it is under way, but not for long. The driver cancels what was, on a
// connection beside; PgBouncer 1.18 crashes where a process ends in the midst of that. After the end of ctx it hurries.
func HangUp(ctx context.Context, conn *pgx.Conn) {
	bounded, cancel := outliving(ctx, hangUpTimeout, hangUpRest)
	defer cancel()
	_ = conn.Close(bounded)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-bounded.Done():
	}
}

// ClosePool closes a pool and waits for it, but not for long: a connection that was cut off in a lost network takes 15 s to close.
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
