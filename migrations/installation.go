package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	statement "github.com/oarlock-dev/oarlock/sql"
)

var (
	identitySQL = statement.Named("migrate/identity")
	openRunsSQL = statement.Named("migrate/open_runs")
	unusedSQL   = statement.Named("migrate/unused_copy")
	adoptSQL    = statement.Named("migrate/adopt")
)

// Place is the place of a database. A part is 0 if the server does not tell it, and is then not compared.
type Place struct {
	Server   int64 // its system identifier, which a base backup and a standby share
	Database int64 // the oid
	Timeline int64 // grows with each promotion, and with each restore to a point in time
}

func (p Place) String() string {
	return fmt.Sprintf("database %d of server %d, timeline %d", p.Database, p.Server, p.Timeline)
}

// Installation is one Oarlock: a schema with its runs. A copy of the database has the same ID.
type Installation struct {
	ID         string // a UUID
	Served     Place  // the place where workers served it; before the first worker, the place where it was made
	Here       Place  // the place where it is now
	IsServed   bool   // a worker has served it
	CopiedFrom string // ID of the installation that it was copied from; empty: none
	Adopting   bool   // AdoptCopy has begun, and has not finished
}

// ReadInstallation returns the installation in the database of a connection. It takes one round trip, and fails if there is no
// schema.
func ReadInstallation(ctx context.Context, db RowQuerier) (*Installation, error) {
	return scanInstallation(db.QueryRow(ctx, identitySQL, pgx.QueryExecModeExec))
}

func scanInstallation(row interface{ Scan(...any) error }) (*Installation, error) {
	var i Installation
	err := row.Scan(&i.ID, &i.IsServed, &i.Served.Server, &i.Served.Database, &i.Served.Timeline,
		&i.Here.Server, &i.Here.Database, &i.Here.Timeline, &i.CopiedFrom, &i.Adopting)
	if err != nil {
		return nil, fmt.Errorf("read which installation this is: %w", err)
	}
	return &i, nil
}

// InstallationOf returns the installation in the database of a URL; nil: there is no schema, or it is older than installations.
func InstallationOf(ctx context.Context, url string, opts ...Option) (*Installation, error) {
	d, err := open(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	defer d.close()
	i, err := scanInstallation(d.db.QueryRowContext(ctx, identitySQL))
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42883" || pg.Code == "3F000") {
		return nil, nil //nolint:nilnil // there is none
	}
	return i, err
}

// Judge returns a *CopyError if this database may be a copy, and nil otherwise. After a *CopyError no worker is allowed to claim
// before a person has adopted the database. known means that the caller knows this address as that of the installation; Judge then
// takes a new timeline for a promotion, and not for a copy.
func (i *Installation) Judge(known bool) error {
	switch {
	case i.Adopting:
		return &CopyError{Installation: *i}
	case !i.IsServed:
		return nil
	case i.elsewhere() || i.promoted() && !known:
		return &CopyError{Installation: *i}
	}
	return nil
}

// InPlace reports whether workers have served the database, and it is still in the place where they served it last.
func (i *Installation) InPlace() bool {
	return i.IsServed && !i.Adopting && !i.elsewhere() && !i.promoted()
}

// elsewhere reports whether this is another server or database than workers served.
func (i *Installation) elsewhere() bool {
	return differ(i.Served.Server, i.Here.Server) || i.Served.Database != i.Here.Database
}

func (i *Installation) promoted() bool { return differ(i.Served.Timeline, i.Here.Timeline) }

// differ reports whether two values differ; 0 is unknown, and differs from nothing.
func differ(a, b int64) bool { return a != 0 && b != 0 && a != b }

// CopyError means that a database may be a copy of the one that workers served, so that its runs would run twice.
type CopyError struct{ Installation }

func (e *CopyError) Error() string { return e.Message() + ": " + e.Hint() }

// Message describes how the database differs from the place that workers served.
func (e *CopyError) Message() string {
	switch {
	case e.Adopting:
		return fmt.Sprintf("this database is being made installation %s, and open runs of %s are left in it", e.ID, e.CopiedFrom)
	case e.elsewhere():
		return fmt.Sprintf("this may be a copy of installation %s: it is in %v; workers served it in %v", e.ID, e.Here, e.Served)
	}
	return fmt.Sprintf("this may be a copy of installation %s: its server is in timeline %d; workers served timeline %d, and none of them goes on here",
		e.ID, e.Here.Timeline, e.Served.Timeline)
}

// Hint names the command to run next.
func (e *CopyError) Hint() string {
	if e.Adopting {
		return "go on with `oarlock migrate adopt --copy`"
	}
	return "no worker claims here before you say what it is: `oarlock migrate adopt --moved` if the original is gone, " +
		"`oarlock migrate adopt --copy` if the original goes on"
}

// Passes reports whether the error may end by itself: a worker that served the installation before may still arrive, and vouch for
// this place.
func (e *CopyError) Passes() bool { return !e.Adopting && !e.elsewhere() }

// OpenRuns counts the runs that AdoptCopy would end.
func OpenRuns(ctx context.Context, url string, opts ...Option) (n int64, err error) {
	d, err := open(ctx, url, opts)
	if err != nil {
		return 0, err
	}
	defer d.close()
	if err := d.db.QueryRowContext(ctx, openRunsSQL).Scan(&n); err != nil {
		return 0, fmt.Errorf("count open runs: %w", err)
	}
	return n, nil
}

// UnusedCopy reports whether the database was adopted as a copy, and neither a worker nor a run was added since.
func UnusedCopy(ctx context.Context, url string, opts ...Option) (unused bool, err error) {
	d, err := open(ctx, url, opts)
	if err != nil {
		return false, err
	}
	defer d.close()
	if err := d.db.QueryRowContext(ctx, unusedSQL).Scan(&unused); err != nil {
		return false, fmt.Errorf("look whether the copy is in use: %w", err)
	}
	return unused, nil
}

// adoptBatch is the number of runs that one transaction ends.
const adoptBatch = 1000

// Adopt declares that the original is gone, and that the installation goes on where its database is now: open runs go on, and keep
// their keys. i is the installation as the caller read it. Only a member of the schema's owner may call Adopt, and only while no
// worker is connected.
func Adopt(ctx context.Context, url string, i *Installation, opts ...Option) error {
	_, err := adopt(ctx, url, i, true, opts)
	return err
}

// AdoptCopy makes a copy an installation with an ID of its own, beside its original. It ends the open runs of the original in the
// copy, and returns how many. i is the installation as the caller read it. The caller repeats a call that was cut off.
func AdoptCopy(ctx context.Context, url string, i *Installation, opts ...Option) (canceled int64, err error) {
	return adopt(ctx, url, i, false, opts)
}

func adopt(ctx context.Context, url string, i *Installation, moved bool, opts []Option) (canceled int64, err error) {
	d, err := open(ctx, url, opts)
	if err != nil {
		return 0, fmt.Errorf("adopt: %w", err)
	}
	defer d.close()
	err = pglink.Do(ctx, func(ctx context.Context) error {
		return d.session().underLock(ctx, func(ctx context.Context, conn *sql.Conn) error {
			n, err := adoptAll(ctx, conn, i.ID, moved)
			canceled += n
			return err
		})
	}, repeat)
	if err != nil {
		return canceled, fmt.Errorf("adopt: %w", err)
	}
	return canceled, nil
}

// adoptAll adopts the installation with the ID was as the owner of the schema, batch by batch, and returns how many runs it has
// ended. moved means Adopt, otherwise AdoptCopy. If the reply to a batch is lost, the count lacks the runs of that batch.
func adoptAll(ctx context.Context, conn *sql.Conn, was string, moved bool) (canceled int64, err error) {
	if _, err := conn.ExecContext(ctx, sessionSQL); err != nil {
		return 0, err
	}
	for done := false; !done; {
		var id string
		var n int64
		if err := conn.QueryRowContext(ctx, adoptSQL, was, moved, adoptBatch).Scan(&id, &n, &done); err != nil {
			return canceled, err
		}
		canceled += n
	}
	return canceled, nil
}
