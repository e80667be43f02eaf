package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	roomSQL      = sql.Named("doctor/room")
	roomPlaceSQL = sql.Named("doctor/room_place")
	roomWriteSQL = sql.Named("doctor/room_write")
)

// room is the row that sql/doctor/room.sql returns.
type room struct {
	Database string
	Ours     string
	Largest  []string
}

func (r room) String() string {
	text := fmt.Sprintf("the database takes %s, of which Oarlock takes %s", r.Database, r.Ours)
	if len(r.Largest) > 0 {
		text += ": " + strings.Join(r.Largest, ", ")
	}
	return text
}

// room fails if the server has no room to write, and is skipped if it takes no writes at all. Postgres does not tell how much of
// its disk is free, so the check writes a megabyte and rolls back. It writes to a temporary table, because any role may create one
// and because it always needs new pages.
func (x *examination) room(ctx context.Context) Check {
	if x.facts.Standby || x.facts.ReadOnly {
		return skip("the server accepts no writes: see the result of the check writable")
	}
	if err := x.tryToWrite(ctx); err != nil {
		return judgeWrite(err)
	}
	taken, err := one[room](ctx, x.conn, roomSQL)
	if err != nil {
		return broken("ask how large the database is", err)
	}
	return ok("the check wrote 1 MB and rolled the write back; %s. A server does not tell how much of its disk is free: watch the disk itself", taken)
}

// tryToWrite writes a megabyte and rolls back. It returns the error of the server, and leaves only a few dead rows in the catalog.
func (x *examination) tryToWrite(ctx context.Context) error {
	tx, err := x.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, roomPlaceSQL); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, roomWriteSQL)
	return err
}

// judgeWrite returns the result for an error of tryToWrite. The check is skipped if the user is not allowed to make temporary
// tables, and fails for any other reason.
func judgeWrite(err error) Check {
	refused, isServer := errors.AsType[*pgconn.PgError](err)
	switch {
	case mayNot(err):
		return skip("this user has no right to make temporary tables, so the check wrote nothing").
			withHint("with GRANT TEMPORARY ON DATABASE an administrator lets this user make temporary tables") // sql-shown: advice
	case isServer && strings.HasPrefix(refused.Code, "53"):
		return fail("the server accepts no write: %s", Explain(err)).
			withHint("free space on the server's disk, or enlarge the disk. Until then the database accepts no run and no record. `oarlock prune` also needs free space")
	}
	return broken("write a megabyte and roll the write back", err)
}
