package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// Session is a worker's side of runs in Postgres. See the package comment for what it owes.
type Session struct {
	store        *Store
	installation string // that it registered in
	worker       Worker
	held         *claimSet
	x            *exchange // of the next four

	claimer *claimer // Poll
	lookout *lookout // Look
	janitor *janitor // DoChores
	sweeper *sweeper // Sweep
	journal *journal // writes what drives decide
	lease   *link    // Renew, which waits for nothing else
	reads   *link    // Load, ReadMail
	chunks  *link    // AppendLogs
	beat    *heartbeat
	hearing *hearing
	end     ending
	leaving pulse // of the statements by which the session gives back what it holds

	closeLimit time.Duration // of a Close without a deadline
}

// ending keeps why a session does nothing more.
type ending struct {
	mu   sync.Mutex
	err  error
	once sync.Once
	done error // what the one Close answered
}

// set says whether this is the end: there is one.
func (e *ending) set(err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.err == nil
	if first {
		e.err = err
	}
	return first
}

func (e *ending) get() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// ID of the worker.
func (s *Session) ID() uuid.UUID { return s.worker.ID }

// Database is where the session's runs are, for people: user@host/database.
func (s *Session) Database() string {
	c := s.store.direct
	host := c.Host
	if c.Port != defaultPort {
		host = fmt.Sprint(host, ":", c.Port)
	}
	return fmt.Sprintf("%s@%s/%s", c.User, host, c.Database)
}

const defaultPort = 5432

// lost is the end of a session that another took for dead: it may write nothing more.
func (s *Session) lost() error {
	err := fmt.Errorf("worker %s: %w", s.worker.ID, ErrLeaseLost)
	if s.end.set(err) && s.store.meter.FenceLost != nil {
		s.store.meter.FenceLost()
	}
	s.held.forfeitAll()
	return err
}

// newToken is a channel that holds one token.
func newToken() chan struct{} {
	token := make(chan struct{}, 1)
	token <- struct{}{}
	return token
}

// alone makes a call of the session that nobody else may make meanwhile, for who has the token.
func (s *Session) alone(ctx context.Context, token chan struct{}, call func() error) error {
	if err := take(ctx, token); err != nil {
		return err
	}
	defer func() { token <- struct{}{} }()
	if err := s.end.get(); err != nil {
		return err
	}
	return call()
}

// take waits for a token.
func take(ctx context.Context, token chan struct{}) error {
	select {
	case <-token:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("another call is under way: %w", ctx.Err())
	}
}

// appName is how the connections of a worker call themselves, so that they can be found when it is lost.
func appName(worker uuid.UUID) string { return "oarlock/" + worker.String() }

// steady is for connections whose statements look for little among much: for the first due run, for the few whose time has
// come. Their plans must not depend on statistics, which are minutes old where a queue fills in seconds. A statement that does
// sort has to say so in a way that no index offers the order of, or its plan walks through all of that index.
func steady(c *pgx.ConnConfig) *pgx.ConnConfig {
	c = c.Copy()
	pglink.AsSteady(c)
	return c
}
