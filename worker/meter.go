package worker

import (
	"context"
	"errors"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// Meter is told what a worker does, as it happens. Its methods are called from many goroutines, some of them where every
// microsecond counts: they count, do not block and do not call back.
type Meter interface {
	RunStarted(dag string, waited time.Duration) // its first drive begins here, so long after it was due
	RunLeft(dag string, as Outcome, took time.Duration)
	TaskSettled(dag string, as dagrun.State) // durable; again when the run is retried
	AttemptEnded(a AttemptEnd)
	Polled(p PollEnd)
	Renewed(margin, took time.Duration, err error) // margin: what was left until the worker would have killed its tasks
}

// Outcome is how a drive of a run ended here: in the run's last state, or so.
type Outcome string

// Outcomes of drives after which the run is not over, but for Undrivable and Refused, which end it as failed.
const (
	Parked     Outcome = "parked"     // it waits, without a worker
	HandedOn   Outcome = "handed_on"  // the worker stops, another one goes on
	Unfit      Outcome = "unfit"      // this host could not start its tasks, another one is to go on
	ClaimLost  Outcome = "lost"       // the claim was another's already, or the worker's lease ended
	Refused    Outcome = "refused"    // the database takes no record of it
	Undrivable Outcome = "undrivable" // it cannot be driven here, nor anywhere
)

// AttemptEnd is the end of one body, a publish included.
type AttemptEnd struct {
	DAG     string
	Body    string // run, command, the name of an action that this worker executes, or OtherBody
	Outcome string // succeeded, snoozed, stopped (somebody asked for it), or a dagrun.FailureKind
	Took    time.Duration
}

// OtherBody stands for a body that this worker does not execute, or could not even describe.
const OtherBody = "other"

// Ends of attempts that are no dagrun.FailureKind.
const (
	AttemptSucceeded = "succeeded"
	AttemptSnoozed   = "snoozed"
	AttemptStopped   = "stopped"
	AttemptUnstarted = "unstarted" // this host could not start it
)

// PollEnd is the end of one poll.
type PollEnd struct {
	Wanted int
	Got    queue.Polled
	Took   time.Duration
	Err    error
}

// silent is the meter of a worker that has none.
type silent struct{}

func (silent) RunStarted(string, time.Duration)            {}
func (silent) RunLeft(string, Outcome, time.Duration)      {}
func (silent) TaskSettled(string, dagrun.State)            {}
func (silent) AttemptEnded(AttemptEnd)                     {}
func (silent) Polled(PollEnd)                              {}
func (silent) Renewed(time.Duration, time.Duration, error) {}

// meter tells how an attempt ended.
func (d *driver) meter(ctx context.Context, task *Task, res *dagrun.Result, took time.Duration) {
	d.life.config.Meter.AttemptEnded(AttemptEnd{
		DAG: d.claim.DAG, Body: d.life.bodyName(task.Body), Outcome: attemptOutcome(ctx, res), Took: took,
	})
}

func attemptOutcome(ctx context.Context, res *dagrun.Result) string {
	stop, stopped := errors.AsType[stopError](context.Cause(ctx))
	switch {
	case res.Kind == dagrun.KindNone && res.SnoozeUntil != 0:
		return AttemptSnoozed
	case res.Kind == dagrun.KindNone:
		return AttemptSucceeded
	case res.Unstarted:
		return AttemptUnstarted
	case res.Kind == dagrun.KindLost || !stopped:
		return string(res.Kind)
	case stop.cause == dagrun.RequestTimeout:
		return string(dagrun.KindTimeout)
	}
	return AttemptStopped
}

// bodyName is one of few: whoever writes DAGs invents none.
func (l *life) bodyName(body *dagspec.Step) string {
	_, known := l.executors[kindOf(body)]
	switch {
	case !known:
		return OtherBody
	case body.Action != "":
		return body.Action
	case body.Command != "":
		return "command"
	}
	return "run"
}

// count tells what has become durable.
func (d *driver) count(ready *dagrun.Ready) {
	for i := range ready.Records.Tasks {
		if row := &ready.Records.Tasks[i]; row.State.Terminal() {
			d.life.config.Meter.TaskSettled(d.claim.DAG, row.State)
		}
	}
	switch {
	case ready.Result != nil:
		d.ending.outcome = Outcome(ready.Result.State.String())
		if run := ready.Records.Run; run != nil && run.StartedAt != 0 {
			d.ending.took = time.Duration(run.FinishedAt-run.StartedAt) * time.Millisecond
		}
	case ready.Leave != nil && ready.Leave.Drained:
		d.ending.outcome = d.ending.handsOn()
	case ready.Leave != nil:
		d.ending.outcome = Parked
	}
}

// handsOn is the outcome of a drive that another worker is to go on with.
func (e *driveEnding) handsOn() Outcome {
	if e.unfit {
		return Unfit
	}
	return HandedOn
}

// outcomeAfter is how a drive ended that returned err.
func (d *driver) outcomeAfter(err error) Outcome {
	switch {
	case err == nil && d.ending.outcome != "":
		return d.ending.outcome
	case errors.Is(err, errGivenBack):
		return d.ending.handsOn()
	case err == nil, errors.Is(err, errStopped), errors.Is(err, queue.ErrLeaseLost):
		return ClaimLost
	case errors.Is(err, queue.ErrRefused):
		return Refused
	}
	return Undrivable
}
