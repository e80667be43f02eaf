package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

// checkTimeout bounds one check.
const checkTimeout = 5 * time.Second

// examination is one run of all checks on one database. It belongs to one goroutine.
type examination struct {
	link  *pgx.ConnConfig
	conn  *pgx.Conn
	took  time.Duration // time that connecting took
	facts facts
	needs int // connections that one worker keeps; 0: unknown
	own   int // how many of these have the worker's name as application_name, for any worker settings

	sharesBackends bool // set by the pooler check: each transaction may use another server connection
}

// facts is the row that sql/doctor/facts.sql returns.
type facts struct {
	VersionNum         int
	Version            string
	Standby            bool
	ReadOnly           bool
	Encoding           string
	Fsync              bool
	FullPageWrites     bool
	SynchronousCommit  string
	Autovacuum         bool
	IdleSessionTimeout string
	SeesAllSessions    bool
}

var factsSQL = sql.Named("doctor/facts")

type namedCheck struct {
	name  string
	run   func(*examination, context.Context) Check
	about string // what an ok result means
}

const connectionCheck = "connection"

// checks are in the order in which they are made and reported. The connection check comes before them.
var checks = []namedCheck{
	{"server_version", (*examination).serverVersion, "Oarlock works with this version of the server"},
	{"encoding", (*examination).encoding, "the database is UTF-8"},
	{"transport", (*examination).transport, "the connection is encrypted, or local"},
	{"writable", (*examination).writable, "the server is a primary, and the session may write"},
	{"migrations", (*examination).migrations, "this binary works with the schema of the database"},
	{"installation", (*examination).installation, "the database is no copy of another database that workers served"},
	{"privileges", (*examination).privileges, "this login has one of Oarlock's roles, such as oarlock_submit"},
	{"pooler", (*examination).pooler, "a pooler, if there is one, lends the connections that a worker needs"},
	{"listen", (*examination).listen, "a notification that the check sends arrives"},
	{"clock", (*examination).clock, "the clocks of this machine and the server agree"},
	{"horizon", (*examination).horizon, "no old snapshot holds up vacuum"},
	{"connections", (*examination).connections, "the server has connections free"},
	{"durability", (*examination).durability, "settings of the server keep committed data"},
	{"room", (*examination).room, "the disk has room: the check writes a megabyte and rolls the write back"},
	{"housekeeping", (*examination).housekeeping, "autovacuum is on, and no setting ends idle sessions"},
	{"retention", (*examination).retention, "no run is long past its retention"},
	{"workers", (*examination).workers, "no worker at work is silent for longer than its lease, or reports a reason to claim nothing"},
	{"schedules", (*examination).schedules, "schedules fire, and time zones of this machine and the server agree"},
	{"approvers", (*examination).approvers, "the approvers that DAGs name are roles of the database"},
	{"future_runs", (*examination).futureRuns, "no run waits for a time that a wrong clock set"},
	{"invariants", (*examination).invariants, "the rows of Oarlock's tables agree with each other"},
}

// About is the name of a check, and what an ok result of it means.
type About struct{ Name, About string }

// Checks lists the checks that Run makes, in the order of its report.
func Checks() []About {
	all := []About{{connectionCheck, "the server answers and accepts the login"}}
	for _, c := range checks {
		all = append(all, About{c.name, c.about})
	}
	return all
}

// Option tells Run more about the intended use of the database.
type Option func(*examination)

// WithWorker returns the option that sets how many connections a worker keeps, and how many of these, own, have the worker's name
// as application_name. Without it, Run does not know how many connections to look for.
func WithWorker(connections, own int) Option {
	return func(x *examination) { x.needs, x.own = connections, own }
}

// Run examines the database behind url. It returns an error if url is not valid, if it cannot connect, or if the server does not
// answer its first question. The report then has a failed connection as its first check, and skips the others.
func Run(ctx context.Context, url string, log *slog.Logger, options ...Option) (Report, error) {
	x, err := open(ctx, url, log)
	if err != nil {
		return unreachable(err), err
	}
	defer x.close(ctx)
	for _, option := range options {
		option(x)
	}
	report := Report{Checks: []Check{x.connected()}}
	for _, c := range checks {
		report.Checks = append(report.Checks, x.check(ctx, c))
	}
	return report, nil
}

func unreachable(err error) Report {
	report := Report{Checks: []Check{{Name: connectionCheck, Status: Fail, Detail: Explain(err)}}}
	for _, c := range checks {
		report.Checks = append(report.Checks, Check{Name: c.name, Status: Skip, Detail: "no connection"})
	}
	return report
}

// open connects, and reads the facts that many checks share. The caller must close the examination.
func open(ctx context.Context, url string, log *slog.Logger) (*examination, error) {
	link, err := pglink.Parse(url, pglink.Options{AppName: "oarlock doctor", Log: log})
	if err != nil {
		return nil, err
	}
	// A pooler gives each transaction another server connection: prepared statements would stay behind there, or be missing.
	link.DefaultQueryExecMode = pgx.QueryExecModeExec
	x := &examination{link: link}
	start := time.Now()
	if x.conn, err = pglink.Dial(ctx, link, nil); err != nil {
		return nil, err
	}
	x.took = time.Since(start)
	if x.facts, err = one[facts](ctx, x.conn, factsSQL); err != nil {
		x.close(ctx)
		return nil, fmt.Errorf("read the settings of the server: %w", err)
	}
	return x, nil
}

func (x *examination) connected() Check {
	c := ok("connected as user %s to database %s, in %s", x.link.User, cmp.Or(x.link.Database, x.link.User), round(x.took))
	c.Name = connectionCheck
	return c
}

// check makes the check c within checkTimeout, and returns its result under its name. It connects again before that if an earlier
// check lost the connection, as a timeout does.
func (x *examination) check(ctx context.Context, c namedCheck) Check {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	result := x.reconnected(ctx, c.run)
	result.Name = c.name
	return result
}

func (x *examination) reconnected(ctx context.Context, run func(*examination, context.Context) Check) Check {
	if x.conn.IsClosed() {
		conn, err := pglink.Dial(ctx, x.link, nil)
		if err != nil {
			return skip("the connection was lost: %s", Explain(err))
		}
		x.conn = conn
	}
	return run(x, ctx)
}

func (x *examination) close(ctx context.Context) {
	end(ctx, x.conn)
}

// end closes a connection, and waits only briefly for a statement under way. Checks roll back, so nothing can be lost.
func end(ctx context.Context, conn *pgx.Conn) { pglink.HangUp(ctx, conn) }

// one sends a statement and returns its only row as a T, with columns assigned to fields by name. No row is an error, and so is a
// second row.
func one[T any](ctx context.Context, conn *pgx.Conn, statement string, args ...any) (T, error) {
	rows, err := conn.Query(ctx, statement, args...)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
}

// all sends a statement and returns each of its rows as a T, with columns assigned to fields by name.
func all[T any](ctx context.Context, conn *pgx.Conn, statement string, args ...any) ([]T, error) {
	rows, err := conn.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

// broken returns a failed check for an error that kept the check from being made. doing names the action that failed, such as
// "count connections".
func broken(doing string, err error) Check {
	return fail("could not %s: %s", doing, Explain(err)).withHint("type `oarlock doctor` again; if the check fails in the same way again, look into the server's log")
}

// unseen returns a skipped check if err says that the schema is missing or does not fit this binary, or that the user lacks a
// privilege. It returns nil for any other error, and for nil.
func unseen(err error) *Check {
	var c Check
	wrong, isVersion := errors.AsType[*migrations.VersionError](err)
	switch {
	case isVersion && wrong.Have == 0:
		c = skip("the database has no Oarlock schema: see the result of the check migrations")
	case isVersion:
		c = skip("this binary does not work with the schema: see the result of the check migrations")
	case mayNot(err):
		c = skip("this user has no right to see runs of other users: use a login with oarlock_read, oarlock_admin or oarlock_worker")
	default:
		return nil
	}
	return &c
}

// mayNot reports whether the server refused a statement because the user lacks a privilege.
func mayNot(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "42501"
}

func round(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Second).String()
}
