package worker

import (
	"context"
	"errors"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// Meter receives the events of a worker as they happen. Many goroutines call its methods, some in places where every microsecond
// counts. A method must not block and must not call the worker.
type Meter interface {
	RunStarted(dag string, waited time.Duration)        // the first drive of a run begins; waited counts from the time it was due
	RunLeft(dag string, as Outcome, took time.Duration) // a drive has ended; took is of the whole run, 0: the run is not over
	TaskSettled(dag string, as dagrun.State)            // a task's final state is stored; called again if the run is retried
	AttemptEnded(a AttemptEnd)
	Polled(p PollEnd)
	Renewed(margin, took time.Duration, err error) // margin was left until the worker would have killed its tasks
}

// Outcome is how a drive of a run ended: the final state of the run, or one of the constants.
type Outcome string

// Outcomes of drives other than a final state of the run. The run is not over, except that Undrivable and Refused end it as failed.
const (
	Parked     Outcome = "parked"     // the run waits, without a worker
	HandedOn   Outcome = "handed_on"  // another worker goes on: this one stops, or has no free slot
	Unfit      Outcome = "unfit"      // another worker goes on: this host could not start tasks
	ClaimLost  Outcome = "lost"       // another worker had the claim already, or the lease of this one ended
	Refused    Outcome = "refused"    // the database takes no record of the run
	Undrivable Outcome = "undrivable" // no worker can drive the run
)

// AttemptEnd is the end of one body, which may be a publish.
type AttemptEnd struct {
	DAG     string
	Body    string // run, command, the name of an action that this worker executes, or OtherBody
	Outcome string // AttemptSucceeded, AttemptSnoozed, AttemptStopped, AttemptUnstarted or a dagrun.FailureKind
	Took    time.Duration
}

// OtherBody stands for a body that this worker does not execute or could not describe.
const OtherBody = "other"

// Ends of attempts besides the values of dagrun.FailureKind.
const (
	AttemptSucceeded = "succeeded"
	AttemptSnoozed   = "snoozed"
	AttemptStopped   = "stopped"   // the driver ended the body, for a reason other than its timeout
	AttemptUnstarted = "unstarted" // this host could not start the body
)

// PollEnd is the end of one poll.
type PollEnd struct {
	Wanted int
	Got    queue.Polled
	Took   time.Duration
	Err    error
}

// silent is the Meter of a worker without one.
type silent struct{}

func (silent) RunStarted(string, time.Duration)            {}
func (silent) RunLeft(string, Outcome, time.Duration)      {}
func (silent) TaskSettled(string, dagrun.State)            {}
func (silent) AttemptEnded(AttemptEnd)                     {}
func (silent) Polled(PollEnd)                              {}
func (silent) Renewed(time.Duration, time.Duration, error) {}

// meter reports the end of an attempt to the Meter.
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

// bodyName returns the AttemptEnd.Body of a body. DAGs cannot add names: an action that this worker does not execute is OtherBody.
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

// count reports the tasks that a commit settled to the Meter. If the drive ends with that commit, it sets d.ending.outcome and, for
// a run that is over, d.ending.took.
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

// handsOn returns the outcome of a drive if another worker is to go on with the run: Unfit if this host cannot start tasks, and
// otherwise HandedOn.
func (e *driveEnding) handsOn() Outcome {
	if e.unfit {
		return Unfit
	}
	return HandedOn
}

// outcomeAfter returns the outcome of a drive that returned err. If err is nil, a commit has set the outcome already. The end of
// the life counts as ClaimLost. An error that outcomeAfter does not know makes the run Undrivable.
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
