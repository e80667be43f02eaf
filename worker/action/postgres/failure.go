package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// failure is the failure of an attempt. Its reason is fit to be shown to users.
type failure struct {
	kind      dagrun.FailureKind
	reason    string
	permanent bool // do not retry: another attempt might have the effect a second time
}

func (f *failure) Error() string { return f.reason }

// connectError means that a connection could not be made.
type connectError struct {
	name string
	err  error
}

func (e *connectError) Error() string { return "connection " + e.name + ": " + plain(e.err) }
func (e *connectError) Unwrap() error { return e.err }

// plain returns a text that says why a connection failed, without URL, host or address.
func plain(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fmt.Sprintf("%s (%s)", pg.Message, pg.Code)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "cannot find the host: " + dns.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "the server did not answer in time"
	}
	return "no connection to the server"
}

// unbegunError means that an attempt got no connection, so that it had no effect.
type unbegunError struct{ error }

func (e *unbegunError) Unwrap() error { return e.error }

// lostError means that the run's own database went away under an attempt of which nothing was committed.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// wentAway reports whether an error means that the server went away: it was stopped, it crashed, or the network broke. It returns
// false for a session that the server ended by one of its limits, because the next session would end in the same way. It also
// returns false for the end of a context, except while connecting.
func wentAway(err error) bool {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	class := pglink.Classify(err)
	switch {
	case class != pglink.SessionLost && class != pglink.NotExecuted && class != pglink.WrongNode:
		return false
	case !answered: // the end of a context counts only for a connect, which has a time limit of its own
		return class != pglink.SessionLost || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	return pg.Code == "57P01" || pg.Code == "57P02" || pg.Code == "57P03" || strings.HasPrefix(pg.Code, "08")
}

// statementError is the error of one of the statements.
type statementError struct {
	place     string
	statement statement
	err       error
}

func (e *statementError) Error() string { return e.err.Error() }
func (e *statementError) Unwrap() error { return e.err }

// result returns the result of an attempt that failed with err, without secrets in its reason. The kind is sql, or the kind of a
// failure. The attempt is unstarted if the host lacked what a connection needs. It is lost if the worker no longer holds the run,
// or if the run's own database went away and task.Lost agrees. If ctx has ended, the reason also has the cause.
func result(ctx context.Context, task *worker.Task, err error) dagrun.Result {
	r := dagrun.Result{Kind: dagrun.KindSQL, Reason: reason(err)}
	if f, ok := errors.AsType[*failure](err); ok {
		r.Kind, r.Permanent = f.kind, f.permanent
	}
	if _, unbegun := errors.AsType[*unbegunError](err); unbegun && worker.Lacks(err) {
		return worker.Unstarted(err, "")
	}
	if errors.Is(err, queue.ErrLeaseLost) {
		return dagrun.Result{Kind: dagrun.KindLost, Reason: "this worker lost the run: the transaction was rolled back"}
	}
	if cause := context.Cause(ctx); cause != nil && !strings.Contains(r.Reason, cause.Error()) {
		r.Reason = cause.Error() + ": " + r.Reason
	}
	r.Reason = task.Masked(r.Reason)
	if _, lost := errors.AsType[*lostError](err); lost {
		return task.Lost(r)
	}
	return r
}

// reason returns the text of an error for users: the server's message and code, with the place in the SQL, or else a text of our
// own without a URL. It puts the numbers of params in place of their values.
func reason(err error) string {
	at, isStatement := errors.AsType[*statementError](err)
	var text string
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		text = fmt.Sprintf("%s (%s)", pg.Message, pg.Code)
		if isStatement && pg.Position > 0 {
			text += " at " + position(at.statement.sql, int(pg.Position))
		}
	} else if f, ok := errors.AsType[*failure](err); ok {
		text = f.reason
	} else if c, ok := errors.AsType[*connectError](err); ok {
		text = c.Error()
	} else if ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded); ended && pgconn.SafeToRetry(err) {
		text = "the task ended before it was sent"
	} else if pglink.Classify(err) == pglink.SessionLost {
		text = "the connection was lost: " + plain(err)
	} else {
		text = pglink.Redact(err.Error())
	}
	if isStatement {
		text = strings.TrimPrefix(at.place+": ", ", ") + at.statement.hidden(text)
		text = strings.TrimPrefix(text, ": ")
	}
	return text
}

// position returns a position in a statement as text: line and column, from 1. at counts characters from 1, as the server does.
func position(sql string, at int) string {
	before := []rune(sql)
	before = before[:min(at-1, len(before))]
	line, column := 1, 1
	for _, r := range before {
		if column++; r == '\n' {
			line, column = line+1, 1
		}
	}
	return fmt.Sprintf("line %d, column %d", line, column)
}

// distinct is the length from which a value is replaced wherever it occurs. A shorter one may be part of ordinary words.
const distinct = 4

// hidden replaces the values of params in a text of the server by their numbers, such as $1. A value shorter than distinct is
// replaced only where the text has it in double quotes.
func (s statement) hidden(text string) string {
	for i, p := range s.params {
		value, err := encode(0, p)
		if err != nil || len(value) == 0 {
			continue
		}
		name := fmt.Sprintf("$%d", i+1)
		text = strings.ReplaceAll(text, `"`+string(value)+`"`, name)
		if len(value) >= distinct {
			text = strings.ReplaceAll(text, string(value), name)
		}
	}
	return text
}

// explain writes the reason of an error to the log of the task, and for an error of a statement the server's hint and context. It
// leaves out the detail, which quotes rows.
func explain(task *worker.Task, err error) {
	fmt.Fprintf(task.Stderr, "%s\n", reason(err))
	at, isStatement := errors.AsType[*statementError](err)
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !isStatement {
		return
	}
	for name, text := range map[string]string{"HINT": pg.Hint, "CONTEXT": pg.Where} {
		if text != "" {
			fmt.Fprintf(task.Stderr, "%s: %s\n", name, at.statement.hidden(text))
		}
	}
}
