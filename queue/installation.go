package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

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
