package pglink

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// Pooler is how what stands between us and the server lends its connections.
type Pooler int

// What FindPooler answers.
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

// FindPooler looks what stands between conn, whose last statement was served by the process served, and the server. dial makes
// a second connection in the same way; it is not called where there is no pooler, and then nothing is asked. A server
// announces its process at connect; a pooler made up another one.
func FindPooler(ctx context.Context, conn *pgx.Conn, served uint32, dial func(context.Context) (*pgx.Conn, error)) (Pooler, error) {
	if served == conn.PgConn().PID() {
		return NoPooler, nil
	}
	other, err := dial(ctx)
	if err != nil {
		return SessionPooler, fmt.Errorf("look how the pooler works: %w", err)
	}
	defer hangUp(ctx, other)
	changes, err := changesBackend(ctx, conn, other, served)
	switch {
	case err != nil:
		return SessionPooler, fmt.Errorf("look how the pooler works: %w", err)
	case changes:
		return TransactionPooler, nil
	}
	return SessionPooler, nil
}

// changesBackend holds a transaction open on the other connection. In session mode each client keeps its own backend.
// In transaction mode the second takes the one that served us last, which is idle, or at the latest we are then
// served by another one.
func changesBackend(ctx context.Context, conn, other *pgx.Conn, before uint32) (bool, error) {
	tx, err := other.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	held, err := Backend(ctx, tx)
	if err != nil || held == before {
		return err == nil, err
	}
	after, err := Backend(ctx, conn)
	return after != before, err
}

const hangUpTimeout = time.Second

func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hangUpTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}
