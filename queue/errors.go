package queue

import (
	"errors"
	"fmt"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// What callers branch on. Errors of this package wrap them.
var (
	// ErrNotFound: there is no such run, DAG, worker or step, or it is not yours to see.
	ErrNotFound = errors.New("not found")
	// ErrConflict: what is there already differs from what was given (a run_key for another request, a log chunk).
	ErrConflict = errors.New("conflict")
	// ErrLeaseLost: the claim, or the whole session, is no longer the worker's. Nothing was written.
	ErrLeaseLost = errors.New("lease lost")
	// ErrInboxMoved: there are controls the driver has not read. Nothing was written: ReadMail, Step, Commit again.
	ErrInboxMoved = errors.New("inbox moved")
	// ErrRefused: the database cannot take a record of this run. The run was ended as failed, reason "internal: …".
	ErrRefused = errors.New("record refused")
	// ErrNoGrants: the user has a role of Oarlock, and this database grants it nothing: `oarlock migrate roles` does.
	ErrNoGrants = errors.New("no grants")
	// ErrClosed: the Store or Session was closed.
	ErrClosed = errors.New("closed")
	// ErrPooled: a pooler lends the worker's connections by the transaction. Config.Direct has to lead past it.
	ErrPooled = pglink.ErrPooled
	// ErrWaiting: a pooler has no connection free, or a database too few for a worker.
	ErrWaiting = pglink.ErrWaiting
	// ErrUnknown: nobody knows whether a write happened. Treat it as "maybe applied".
	ErrUnknown = pglink.ErrUnknown
)

// Error is a refusal by the database that a person can act on.
type Error struct {
	Code    string // SQLSTATE: OA… is listed in the view oarlock.error_codes
	Message string
	Hint    string // what to do about it
	Detail  string
	is      error // the sentinel it counts as, if any
	cause   error // what the driver said, for errors.As
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("%s (%s)", e.Message, e.Code)
	}
	return fmt.Sprintf("%s (%s): %s", e.Message, e.Code, e.Hint)
}

// Is makes errors.Is(err, ErrNotFound) and its like work.
func (e *Error) Is(target error) bool { return e.is != nil && e.is == target }

func (e *Error) Unwrap() error { return e.cause }

// Passing tells of an error that says nothing about what was asked: the database was away, too busy, or did not answer in
// time. Asking again may help.
func Passing(err error) bool {
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrClosed) {
		return false
	}
	switch pglink.Classify(err) {
	case pglink.NotExecuted, pglink.Aborted, pglink.SessionLost, pglink.WrongNode, pglink.Degraded:
		return true
	case pglink.OK, pglink.Permanent:
	}
	return errors.Is(err, ErrUnknown)
}
