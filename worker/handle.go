package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Outputs are what a Go function puts out, by name.
type Outputs map[string]any

// Func is a Go function that is an action: a step calls it by the name under which it is among the Executors,
// "action:NAME". Its context ends when the attempt is to end; context.Cause says why.
//
// An error fails the attempt, as kind exit with code 1; Permanent and Snooze say more. A panic fails it as kind panic,
// with the stack in the log.
type Func func(ctx context.Context, task *Task) (Outputs, error)

// Permanent marks an error that trying again will not mend: neither on_error nor retry_policy may.
func Permanent(err error) error { return &permanentError{err} }

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Snooze is an error that is none: the next attempt starts after d, and the retry budget is left alone.
func Snooze(d time.Duration) error { return &snoozeError{d} }

type snoozeError struct{ span time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozes for %v", e.span) }

// Execute calls the function.
func (f Func) Execute(ctx context.Context, task *Task) dagrun.Result {
	task.Started()
	outputs, err := f(context.WithValue(ctx, loggerKey{}, task.Stderr), task)
	if err != nil {
		return task.failed(ctx, err)
	}
	text, err := json.Marshal(outputs)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindOutput, Reason: "outputs: " + err.Error()}
	}
	if outputs == nil {
		text = nil
	}
	return dagrun.Result{Outputs: dagrun.JSON(text)}
}

// failed is how an error of a function ends its attempt.
func (t *Task) failed(ctx context.Context, err error) dagrun.Result {
	if snooze, ok := errors.AsType[*snoozeError](err); ok {
		return dagrun.Result{SnoozeUntil: t.clock.now() + dagrun.Time(snooze.span.Milliseconds())}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	_, permanent := errors.AsType[*permanentError](err)
	return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true, Reason: err.Error(), Permanent: permanent}
}

type loggerKey struct{}

// Logger writes to the log of the task that a Func's context belongs to; elsewhere it writes nothing.
func Logger(ctx context.Context) *slog.Logger {
	if stderr, ok := ctx.Value(loggerKey{}).(io.Writer); ok {
		return slog.New(slog.NewTextHandler(stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}
