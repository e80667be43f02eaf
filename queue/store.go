package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

// Config says how to reach the database. URL or Pool is required.
type Config struct {
	URL      string        // a URL or keyword=value string, by libpq's rules
	Pool     *pgxpool.Pool // a pool of the caller to use instead; the caller closes it
	Direct   string        // a URL that leads past a pooler, for connections that need a server process of their own; "": as URL
	PollOnly bool          // never use LISTEN: workers see new runs at their next look
	MaxConns int32         // size of the pool made for URL; 0: 8
	FewConns int32         // MaxConns if a pooler lends per session: each connection is then one of the pooler's few; 0: as MaxConns
	Meter    Meter         // called by sessions

	// FreshPaths makes Session.Definition read the path of a version's file each time, because the file may have moved.
	FreshPaths bool

	// Memory is what the worker's host remembers; nil: a memory that ends with the process.
	Memory Memory

	// OwnSchema makes Open return a *migrations.VersionError if this program does not work with the schema. The check costs no
	// round trip. Without OwnSchema, a client may call the functions of a schema that is newer than the client. OwnSchema is for
	// programs that send each statement once, because it turns prepared statements off.
	OwnSchema bool
}

const defaultMaxConns = 8

// Store is a client's connection to runs in Postgres. Workers register in it.
type Store struct {
	pool        *pgxpool.Pool
	ownsPool    bool
	direct      *pgx.ConnConfig // settings of connections outside the pool
	prepare     pglink.Prepare  // runs before such a connection is made, as the pool that direct comes from does; nil: nothing runs
	pollOnly    bool
	beside      bool // direct leads another way than the pool
	meter       Meter
	fresh       bool // Config.FreshPaths
	memory      Memory
	logListener *logListener // one LISTEN connection for all followers, made for the first of them
	specs       *definitions // compiled DAG versions
	shortage    shortage     // shortage of connections that a pooler lends
}

// Open returns a store for a database that has Oarlock's schema. For a URL it makes a pool, and opens one connection to check
// that it can; with Config.Pool it does not connect. The caller closes the store.
func Open(ctx context.Context, c Config) (*Store, error) {
	s := &Store{pool: c.Pool, pollOnly: c.PollOnly, meter: c.Meter, fresh: c.FreshPaths, beside: c.Direct != "", shortage: shortage{patience: shortagePatience, tryPatience: occupyPatience}}
	if s.pool == nil {
		options := pglink.Options{MaxConns: cmp.Or(c.MaxConns, defaultMaxConns), PooledConns: c.FewConns}
		if c.OwnSchema {
			options.Probe, options.Unprepared = checkSchema, true
		}
		pool, err := pglink.NewPool(ctx, c.URL, options)
		if err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
		s.pool, s.ownsPool = pool, true
	}
	s.direct = s.pool.Config().ConnConfig
	if !s.ownsPool {
		s.prepare = s.pool.Config().BeforeConnect
	}
	if c.Direct != "" {
		direct, err := pglink.Parse(c.Direct, pglink.Options{})
		if err != nil {
			return nil, fmt.Errorf("open: direct connections: %w", err)
		}
		s.direct, s.prepare = direct, nil
	}
	if s.memory = c.Memory; s.memory == nil {
		s.memory = &recollection{}
	}
	s.logListener = newLogListener(s)
	s.specs = newDefinitions()
	return s, nil
}

// checkSchema returns a *migrations.VersionError for a schema that this program does not work with, and an *Error for a user
// without any role of Oarlock.
func checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	return wrapPermissionError(ctx, pool, migrations.Check(ctx, pool), "has no role of Oarlock", roleSubmit, roleWorker, roleRead, roleApprove, roleAdmin)
}

// Close closes the listener and the pool that the store made, but not Config.Pool. It does not close sessions: close them first.
func (s *Store) Close() {
	s.logListener.close()
	if s.ownsPool {
		pglink.ClosePool(s.pool)
	}
}

// newLink returns a dedicatedConn with these settings. It connects at its first use.
func (s *Store) newLink(config *pgx.ConnConfig) *dedicatedConn {
	l := newDedicatedConn(config)
	l.prepare = s.prepare
	return l
}

// connConfig returns a copy of the settings for a connection outside the pool, under an application_name. The server soon gives
// up a writer's client that vanished.
func (s *Store) connConfig(appName string) *pgx.ConnConfig {
	c := s.direct.Copy()
	pglink.AsWriter(c, appName)
	pglink.AsOurs(c)
	return c
}

const (
	// Deadlines of calls without a deadline of their own.
	askTimeout  = 30 * time.Second
	bulkTimeout = 5 * time.Minute

	// clockMargin is added to a time that this process measured and that is then subtracted from the database's clock.
	clockMargin = time.Second
)

// ask is one statement, run over a connection of the pool.
type ask func(context.Context, *pgxpool.Conn) error

// write calls do, which sends a statement that changes something. If the reply is lost, write calls again on another connection,
// and again finds out the outcome: it returns nil if the write is there. If sending the statement twice is harmless, again is the
// same as do. The server then makes the second copy wait for the first one, should that still be under way. If the statement
// certainly had no effect, write calls do once more, for about four seconds in all. A ctx without a deadline gets within.
func (s *Store) write(ctx context.Context, within time.Duration, do, again ask) error {
	ctx, cancel := bounded(ctx, within)
	defer cancel()
	w := retriedWrite{store: s, do: do, again: again}
	err := pglink.Do(ctx, w.send, w.settle)
	if w.answer != nil {
		return w.answer
	}
	return err
}

type retriedWrite struct {
	store     *Store
	do, again ask
	sent      bool
	answer    error // the server's refusal when again asked it
}

func (w *retriedWrite) send(ctx context.Context) error {
	w.sent = false
	return w.store.with(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return asActor(ctx, conn, func(ctx context.Context, conn *pgxpool.Conn) error {
			w.sent = true
			return w.do(ctx, conn)
		})
	})
}

// settle calls w.again, and reports whether the write is done. A refusal by the server is as final as success, because it answers
// the same request: settle then returns true, and w.answer is the refusal. If w.do was never called, settle returns false and
// calls nothing.
func (w *retriedWrite) settle(ctx context.Context) (done bool, err error) {
	if !w.sent {
		return false, nil
	}
	err = w.store.with(ctx, func(ctx context.Context, conn *pgxpool.Conn) error { return asActor(ctx, conn, w.again) })
	if pglink.Classify(err) == pglink.Permanent {
		w.answer = err
		return true, nil
	}
	return err == nil, err
}

// read calls do, which only reads, with a connection of the pool. After an error that may pass, such as a broken connection, it
// calls do again, for about four seconds. So do must begin anew at each call. A ctx without a deadline gets askTimeout.
func (s *Store) read(ctx context.Context, do ask) error {
	ctx, cancel := bounded(ctx, askTimeout)
	defer cancel()
	return pglink.Do(ctx, func(ctx context.Context) error { return s.with(ctx, do) },
		func(context.Context) (bool, error) { return false, nil })
}

func (s *Store) with(ctx context.Context, do ask) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return do(ctx, conn)
}

// bounded returns ctx with a deadline: its own, or within from now if it has none.
func bounded(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, within)
}

// unknown returns the again of a write with an outcome that cannot be found out: a function that returns an *UnknownError with
// hint.
func unknown(hint string) ask {
	return func(context.Context, *pgxpool.Conn) error { return &UnknownError{hint} }
}

// UnknownError is an ErrUnknown with a hint.
type UnknownError struct{ Hint string }

func (e *UnknownError) Error() string { return ErrUnknown.Error() + ": the reply was lost; " + e.Hint }

// Is reports whether target is ErrUnknown.
func (e *UnknownError) Is(target error) bool { return errors.Is(ErrUnknown, target) }

var actorSQL = sql.Named("queue/actor")

type actorKey struct{}

// WithActor returns a context for writes that are recorded as requests of the person name, made through the login of the store.
// The database believes this only from members of the role oarlock_web, and ignores the name from other logins. The rights are
// those of the login in any case.
func WithActor(ctx context.Context, name string) context.Context {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, ""), "\x00", "") // Postgres does not take these in a text
	return context.WithValue(ctx, actorKey{}, name)
}

// asActor runs do in a transaction for which the database knows the actor of ctx, see WithActor. Without an actor it runs do
// alone. The setting ends with the transaction, so that a pooler may lend the connection to other clients.
func asActor(ctx context.Context, conn *pgxpool.Conn, do ask) error {
	name, _ := ctx.Value(actorKey{}).(string)
	if name == "" {
		return do(ctx, conn)
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, actorSQL, pgx.StrictNamedArgs{"actor": name}); err != nil {
			return err
		}
		return do(ctx, conn)
	})
}

var rightsSQL = sql.Named("queue/rights")

// Rights are the rights of a login in the database. A page need not offer an action without its right. The database still checks
// each action.
type Rights struct {
	Login   string
	Read    bool // may see all runs, DAGs, queues and workers
	Submit  bool // may request runs, and steer its own
	Approve bool // may decide the approvals that wait for it
	Admin   bool // may steer all runs, DAGs, queues and workers
	Work    bool // may drive runs
	Names   bool // may name the person for whom it acts, see WithActor
}

// Steers reports whether the login may steer a run or schedule that owner submitted or owns. With owner "" only an administrator
// may.
func (r Rights) Steers(owner string) bool {
	return r.Admin || r.Submit && owner != "" && owner == r.Login
}

// Sees reports whether the login sees all of a run that owner submitted. If not, it sees as much of the run as an approver
// does.
func (r Rights) Sees(owner string) bool { return r.Read || owner == r.Login }

// OnlyApproves reports whether the login may decide approvals, but may neither see runs of other submitters nor request runs.
func (r Rights) OnlyApproves() bool { return r.Approve && !r.Submit && !r.Read }

// Rights reads the rights of the store's login.
func (s *Store) Rights(ctx context.Context) (Rights, error) {
	rights, err := one(ctx, s, rightsSQL, nil, pgx.RowToStructByPos[Rights])
	return rights, wrapError("read rights", err)
}

var vouchSQL = sql.Named("queue/vouch")

// Memory is what a host remembers of the installations that its workers have served: the last addresses of each. By it a worker
// that starts after a failover recognises its database. A copy of that database at another address is not recognised.
type Memory interface {
	Recall(installation string) (addresses []string) // none: no worker here has served it
	Remember(installation string, addresses []string)
}

// Unvouched reports whether err means that a worker was refused because the database is on a new timeline. Try again later: a
// worker that was running before may still vouch for that timeline.
func Unvouched(err error) bool {
	refused, ok := errors.AsType[*migrations.CopyError](err)
	return ok && refused.Passes()
}

// MayBeCopy returns a text if workers refuse the database because it may be a copy: the reason, and the command that a person
// must type. It returns "" if workers do not refuse it. In a database that may be a copy, the listed workers run against the
// original, if they run at all. Every role may call it.
func (s *Store) MayBeCopy(ctx context.Context) (why string, err error) {
	var i *migrations.Installation
	err = s.read(ctx, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		i, err = migrations.ReadInstallation(ctx, conn)
		return err
	})
	if err != nil {
		return "", wrapError("ask which installation this is", err)
	}
	if refused := i.Judge(false); refused != nil {
		why = refused.Error()
	}
	return why, nil
}

// recollection is a Memory that ends with the process.
type recollection struct {
	mu    sync.Mutex
	known map[string][]string
}

func (r *recollection) Recall(installation string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[installation]
}

func (r *recollection) Remember(installation string, addresses []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = map[string][]string{installation: addresses} // a store has one address
}

// addressesOf returns host:port/database for each host in c, each once, and no secrets.
func addressesOf(c *pgx.ConnConfig) []string {
	all := []string{fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database)}
	for _, f := range c.Fallbacks {
		if at := fmt.Sprintf("%s:%d/%s", f.Host, f.Port, c.Database); !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// recognise reads the installation behind a connection. If a worker must not claim from it, the error is a *migrations.CopyError.
// The store's Memory decides whether a new timeline is a failover of a known database.
func (s *Store) recognise(ctx context.Context, conn *pgx.Conn) (*migrations.Installation, error) {
	i, err := migrations.ReadInstallation(ctx, conn)
	if err != nil {
		return nil, err
	}
	here := addressesOf(s.direct)
	known := slices.ContainsFunc(s.memory.Recall(i.ID), func(at string) bool { return slices.Contains(here, at) })
	return i, i.Judge(known)
}

// vouch makes the database record that installation i is served here. If the database is a clone of a template, it gets an id of
// its own by that, and vouch sets i.ID to it. vouch returns an error if the installation changed since i was read. It does
// nothing if this is the place where workers served i last.
func vouch(ctx context.Context, conn *pgx.Conn, i *migrations.Installation) error {
	if i.InPlace() {
		return nil
	}
	var id *string
	if err := conn.QueryRow(ctx, vouchSQL, pgx.QueryExecModeExec).Scan(&id); err != nil {
		return fmt.Errorf("note where installation %s is served: %w", i.ID, err)
	}
	if id == nil {
		return fmt.Errorf("installation %s changed while this worker connected: start it again", i.ID)
	}
	i.ID = *id
	return nil
}

// goOn checks a new connection before the session claims over it. First it makes sure that the former server process has ended,
// and leaves the claims under way to the next sweep. If the server was promoted, this process has run since before the promotion,
// so it vouches for the new timeline. If there is another database behind the connection, goOn ends the session and returns
// ErrLeaseLost, and the next registration returns the reason.
func (s *Session) goOn(ctx context.Context, conn *pgx.Conn) error {
	if err := s.claimer.conn.endFormer(ctx, conn); err != nil {
		return err
	}
	s.x.gone()
	s.claimer.anew.Store(true)
	i, err := s.sameInstallation(ctx, conn)
	if err != nil {
		return err
	}
	return vouch(ctx, conn, i)
}

// isStillIts checks a new connection before the session reads or writes over it, because a copy of the database has the session's
// claims and fences too. If it is another installation, or may be a copy, isStillIts ends the session and returns ErrLeaseLost.
func (s *Session) isStillIts(ctx context.Context, conn *pgx.Conn) error {
	_, err := s.sameInstallation(ctx, conn)
	return err
}

// sameInstallation reads the installation behind a connection. If that is not the one in which the session registered, or may be
// a copy of it, sameInstallation ends the session and returns ErrLeaseLost.
func (s *Session) sameInstallation(ctx context.Context, conn *pgx.Conn) (*migrations.Installation, error) {
	i, err := migrations.ReadInstallation(ctx, conn)
	if err != nil {
		return nil, err
	}
	if i.ID != s.installation || i.Judge(true) != nil {
		return nil, s.lost()
	}
	return i, nil
}
