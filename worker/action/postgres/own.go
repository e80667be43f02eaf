package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

var isOwn = sql.Named("postgres/own")

// outsideMode is for statements outside of a transaction. A pooler may serve each of their round trips by another backend.
const outsideMode = pgx.QueryExecModeCacheDescribe

const askTimeout = 5 * time.Second

// Settler stores the result of a task in the task's own transaction. A *queue.Session is one.
type Settler interface {
	SettleTx(ctx context.Context, tx pgx.Tx, s queue.Settlement) error
}

// life is one registration of the worker.
type life struct {
	settler Settler
	worker  uuid.UUID

	mu    sync.Mutex
	known map[string]bool // by connection: whether it leads to the database in which the worker is registered
}

// owns reports whether tasks on the connection of s may settle: it leads to the primary that has the row of this worker, and its
// role has the rights. It asks the server once for each name of a connection, and remembers the answer. It asks outside of the
// task's transaction, which an error would abort.
//
// If a right is missing, owns calls note with the reason once, for the log of the task, and returns false. It returns false for a
// standby, too, but does not remember that, because a standby may be promoted. An error means that the server did not answer the
// question.
func (l *life) owns(ctx context.Context, s *session, note func(string)) (bool, error) {
	name := s.database.name
	if own, known := l.recall(name); known {
		return own, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var there, standby, may bool
	err := s.conn.QueryRow(ctx, isOwn, outsideMode, l.worker).Scan(&there, &standby, &may)
	pg, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case refused && (pg.Code == "42P01" || pg.Code == "3F000" || pg.Code == "42883"): // there is no such table, schema or function
	case refused && pg.Code == "42501", err == nil && there && !may:
		note(fmt.Sprintf("connection %s: its role has no right to settle tasks in schema oarlock; if this database is the run's own, tasks happen at least once, not exactly once", name))
	case err != nil:
		return false, err
	case standby:
		return false, nil // not remembered, because a standby may be promoted
	}
	own := err == nil && there && may
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[name] = own
	return own, nil
}

func (l *life) recall(name string) (own, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, known = l.known[name]
	return own, known
}
