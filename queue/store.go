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
	Pool     *pgxpool.Pool // a pool of yours to use instead; it stays yours
	Direct   string        // URL past a pooler, for connections that must know their backend; "": as URL
	PollOnly bool          // never LISTEN: new runs are seen by the next look
	MaxConns int32         // of the pool made for URL; 0: 8
	FewConns int32         // MaxConns where a pooler lends by the session: each is then one of its few; 0: as MaxConns
	Meter    Meter         // told what sessions do

	// FreshPaths has Session.Definition look each time where a version was put from last: its file may have moved.
	FreshPaths bool

	// Memory is of the host, for workers: nil for what this process remembers.
	Memory Memory

	// OwnSchema has Open refuse a schema that this program does not work with: a *migrations.VersionError. It costs no
	// round trip. Without it, clients may call the functions of a schema that is newer than they are. It is for programs that
	// send each statement once: none is kept prepared.
	OwnSchema bool
}

const defaultMaxConns = 8

// Store is the clients' side of runs in Postgres, and where workers register.
type Store struct {
	pool     *pgxpool.Pool
	ownsPool bool
	direct   *pgx.ConnConfig // what single connections are made of
	prepare  pglink.Prepare  // and what the pool that it is of does before
	pollOnly bool
	beside   bool // direct is another way than the pool's
	meter    Meter
	fresh    bool // Config.FreshPaths
	memory   Memory
	ears     *ears        // one LISTEN connection for all followers, made when the first appears
	specs    *definitions // compiled DAG versions
	shortage shortage     // of connections that a pooler lends
}

// Open connects to a database that Oarlock's schema is in.
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
	s.ears = newEars(s)
	s.specs = newDefinitions()
	return s, nil
}

// checkSchema refuses a schema of another version, and a user who may not even ask for it.
func checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	return lacks(ctx, pool, migrations.Check(ctx, pool), "has no role of Oarlock", roleSubmit, roleWorker, roleRead, roleApprove, roleAdmin)
}

// Close ends what the store opened. Sessions are to be closed before.
func (s *Store) Close() {
	s.ears.close()
	if s.ownsPool {
		pglink.ClosePool(s.pool)
	}
}

func (s *Store) newLink(config *pgx.ConnConfig) *link {
	l := newLink(config)
	l.prepare = s.prepare
	return l
}

// connConfig is for a connection of its own. A writer's server gives up soon on a client that vanished.
func (s *Store) connConfig(appName string) *pgx.ConnConfig {
	c := s.direct.Copy()
	pglink.AsWriter(c, appName)
	pglink.AsOurs(c)
	return c
}

const (
	// Deadlines of calls whose context has none.
	askTimeout  = 30 * time.Second
	bulkTimeout = 5 * time.Minute

	// clockMargin is added to a time that was measured here and is then counted back on the database's clock.
	clockMargin = time.Second
)

// ask is one statement on its way to the server, for one of two purposes.
type ask func(context.Context, *pgxpool.Conn) error

// write sends what changes something. When the reply is lost, again finds out on another connection what became of it:
// no error means that it is done. Where sending it twice is harmless, again is the same as do, and waits in the server for
// the first copy, should that still be under way. What was never sent is not asked about.
func (s *Store) write(ctx context.Context, within time.Duration, do, again ask) error {
	ctx, cancel := bounded(ctx, within)
	defer cancel()
	w := writing{store: s, do: do, again: again}
	err := pglink.Do(ctx, w.send, w.settle)
	if w.answer != nil {
		return w.answer
	}
	return err
}

type writing struct {
	store     *Store
	do, again ask
	sent      bool
	answer    error // the server's, given when it was asked again
}

func (w *writing) send(ctx context.Context) error {
	w.sent = false
	return w.store.with(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return asActor(ctx, conn, func(ctx context.Context, conn *pgxpool.Conn) error {
			w.sent = true
			return w.do(ctx, conn)
		})
	})
}

// settle takes a refusal for an answer as final as success: the same question got it.
func (w *writing) settle(ctx context.Context) (done bool, err error) {
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

// read sends what changes nothing, and may therefore be sent again.
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

func bounded(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, within)
}

// unknown is an again for what cannot be found out.
func unknown(hint string) ask {
	return func(context.Context, *pgxpool.Conn) error { return &UnknownError{hint} }
}

// UnknownError is ErrUnknown with what to do about it.
type UnknownError struct{ Hint string }

func (e *UnknownError) Error() string { return ErrUnknown.Error() + ": the reply was lost; " + e.Hint }

// Is makes errors.Is(err, ErrUnknown) work.
func (e *UnknownError) Is(target error) bool { return errors.Is(ErrUnknown, target) }

var actorSQL = sql.Named("queue/actor")

type actorKey struct{}

// WithActor has what a Store writes recorded as asked by a person, through the login that the store has. The database believes
// members of the role oarlock_web, and passes over the actor of anybody else. What may be done goes by the login all the same.
func WithActor(ctx context.Context, name string) context.Context {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, ""), "\x00", "") // what Postgres takes for no text
	return context.WithValue(ctx, actorKey{}, name)
}

// asActor does something for the actor of a context. The setting ends with the transaction, so that a pooler may lend the
// connection to others.
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

// Rights are what the database lets a login do. What it may not, a page need not offer; the database decides each time all the same.
type Rights struct {
	Login   string
	Read    bool // see all runs, DAGs, queues and workers
	Submit  bool // ask for runs, and steer its own
	Approve bool // decide the approvals that wait for it
	Admin   bool // steer all runs, DAGs, queues and workers
	Work    bool // drive runs
	Names   bool // say for whom it asks, see WithActor
}

// Steers reports whether the login may steer what owner has: a run that it submitted, a schedule. "" is nobody's own.
func (r Rights) Steers(owner string) bool {
	return r.Admin || r.Submit && owner != "" && owner == r.Login
}

// Sees reports whether the login sees a run whole, by its submitter. Else it sees no more of it than an approver does.
func (r Rights) Sees(owner string) bool { return r.Read || owner == r.Login }

// OnlyApproves reports whether the login decides approvals and may neither see runs of others nor ask for its own.
func (r Rights) OnlyApproves() bool { return r.Approve && !r.Submit && !r.Read }

// Rights reads what the user may do.
func (s *Store) Rights(ctx context.Context) (Rights, error) {
	rights, err := one(ctx, s, rightsSQL, nil, pgx.RowToStructByPos[Rights])
	return rights, said("read rights", err)
}

var vouchSQL = sql.Named("queue/vouch")

// Memory is what a host remembers of the installations that its workers served: the addresses of the last time. A worker that
// begins afresh after a failover knows its database again by it. A copy at another address is not known.
type Memory interface {
	Recall(installation string) (addresses []string) // none: it never served it
	Remember(installation string, addresses []string)
}

// Unvouched says that a worker was refused for a new timeline. Those that were at work before may still say that it goes on.
func Unvouched(err error) bool {
	refused, ok := errors.AsType[*migrations.CopyError](err)
	return ok && refused.Passes()
}

// MayBeCopy says why workers refuse the database until a person has said what it is, and what to type; "" where they do not. In one that
// may be a copy, the workers that it lists are at work elsewhere, if at all. For all.
func (s *Store) MayBeCopy(ctx context.Context) (why string, err error) {
	var i *migrations.Installation
	err = s.read(ctx, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		i, err = migrations.ReadInstallation(ctx, conn)
		return err
	})
	if err != nil {
		return "", said("ask which installation this is", err)
	}
	if refused := i.Judge(false); refused != nil {
		why = refused.Error()
	}
	return why, nil
}

// recollection is the memory of a process.
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

// addressesOf are the hosts of a URL with their ports and the database, and nothing secret.
func addressesOf(c *pgx.ConnConfig) []string {
	all := []string{fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database)}
	for _, f := range c.Fallbacks {
		if at := fmt.Sprintf("%s:%d/%s", f.Host, f.Port, c.Database); !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// recognise returns the installation behind a connection, if a worker may claim from it: else a *migrations.CopyError.
func (s *Store) recognise(ctx context.Context, conn *pgx.Conn) (*migrations.Installation, error) {
	i, err := migrations.ReadInstallation(ctx, conn)
	if err != nil {
		return nil, err
	}
	here := addressesOf(s.direct)
	known := slices.ContainsFunc(s.memory.Recall(i.ID), func(at string) bool { return slices.Contains(here, at) })
	return i, i.Judge(known)
}

// vouch has the database note that installation i is served here. A clone of a template gets an id of its own then.
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

// goOn looks at a new connection before the session claims over it. The former one is seen to have ended first. This process
// was at work before a promotion and is after it, so it vouches for the new timeline. Behind any other database the session ends,
// and the next registration says why.
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

// isStillIts looks at a new connection before the session reads or writes over it: a copy has the session's claims and fences, too.
func (s *Session) isStillIts(ctx context.Context, conn *pgx.Conn) error {
	_, err := s.sameInstallation(ctx, conn)
	return err
}

// sameInstallation reads the installation behind a connection. The session ends where it is not the one that it registered in.
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
