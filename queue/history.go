package queue

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/sql"
)

// MaxEvents bounds one call of Events.
const MaxEvents = 1000

var (
	controlsSQL = sql.Named("queue/controls")
	attemptsSQL = sql.Named("queue/attempts")
	eventsSQL   = sql.Named("queue/events")
)

// Controls reads what was asked of a run, oldest first: the newest 1,000. Of somebody else's run a submitter sees what it
// asked itself.
func (s *Store) Controls(ctx context.Context, run RunID) ([]Control, error) {
	controls, err := list(ctx, s, controlsSQL, pgx.StrictNamedArgs{"run": run}, scanControl)
	return controls, said("read controls", err)
}

// Attempts reads the attempts of a run that later ones superseded; the last one of each task is part of Tasks.
func (s *Store) Attempts(ctx context.Context, run RunID) ([]Attempt, error) {
	attempts, err := list(ctx, s, attemptsSQL, pgx.StrictNamedArgs{"run": run}, scanAttempt)
	return attempts, said("read attempts", err)
}

// Events reads what happened to a run after an event, 0 for all; at most MaxEvents, oldest first.
func (s *Store) Events(ctx context.Context, run RunID, after int64) ([]Event, error) {
	events, err := list(ctx, s, eventsSQL, pgx.StrictNamedArgs{"run": run, "after": after, "rows": MaxEvents}, scanEvent)
	return events, said("read events", err)
}

func scanAttempt(row pgx.CollectableRow) (a Attempt, err error) {
	var signal *int
	err = row.Scan(&a.Step, &a.Item, &a.Attempt, &a.Generation, &a.State, (*zeronull.Text)(&a.FailureKind), &a.ExitCode, &signal,
		&a.Reason, (*zeronull.Text)(&a.Worker), (*zeronull.Timestamptz)(&a.StartedAt), (*zeronull.Timestamptz)(&a.FinishedAt))
	a.Signal = orZero(signal)
	return a, err
}

func scanEvent(row pgx.CollectableRow) (e Event, err error) {
	var epoch *int
	err = row.Scan(&e.ID, &e.At, &e.Kind, (*zeronull.Text)(&e.By), (*zeronull.Text)(&e.Worker), &epoch, (*zeronull.Text)(&e.Step),
		(*zeronull.Text)(&e.Item), &e.Message)
	e.Epoch = orZero(epoch)
	return e, err
}

func orZero[T any](v *T) T {
	if v == nil {
		return *new(T)
	}
	return *v
}
