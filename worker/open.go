package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// Prober asks whether what a wait waits for is there, and says why not: asked again later, it may be. An error is one that
// asking again will not mend.
type Prober interface {
	Probe(ctx context.Context, with map[string]any) (there bool, why string, err error)
}

const (
	probeEvery   = 10 * time.Second // unless the wait names its interval
	probeTimeout = 30 * time.Second
)

// open begins or takes up what a task waits for without a slot. It may take a while: the answer comes as a happening.
func (d *driver) open(a dagrun.Action) {
	task, err := d.describe(a)
	if err != nil {
		d.answer(a, dagrun.Event{Kind: dagrun.EvFinished, Result: &dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}})
		return
	}
	row, _ := d.run.Task(a.Task)
	ctx := d.ctx
	d.errands.ask(func() {
		open := func() dagrun.Event { return d.openChild(ctx, task, a) }
		if task.Body.Action == "wait" {
			open = func() dagrun.Event { return d.openWait(ctx, task, &row) }
		}
		task.hidden = d.life.secrets.atHand(task.Resolved.Declared)
		e := open()
		if e.Text = task.Masked(e.Text); e.Result != nil {
			e.Result.Reason = task.Masked(e.Result.Reason)
		}
		d.answer(a, e)
	})
}

// answer posts what became of an action.
func (d *driver) answer(a dagrun.Action, e dagrun.Event) {
	e.Task, e.Attempt = a.Task, a.Attempt
	d.post.put(happening{event: e})
}

// openWait is asked again at the time it named.
func (d *driver) openWait(ctx context.Context, task *Task, row *dagrun.TaskRecord) dagrun.Event {
	until, err := d.waitUntil(task.Resolved.With, row)
	switch {
	case err != nil:
		return dagrun.Event{Kind: dagrun.EvFinished, Result: &dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}}
	case until == 0:
		return d.probe(ctx, task)
	case until > d.clock.now():
		return dagrun.Event{Kind: dagrun.EvWaits, Until: until, Ref: at(d.clock.database(until)).Format(namedTime)}
	}
	return dagrun.Event{Kind: dagrun.EvFinished, Result: &dagrun.Result{}}
}

// namedTime is how the row of a wait names its end, by the database's clock: what the run's clock says the next drive does not know.
const namedTime = "2006-01-02T15:04:05.000Z07:00"

// waitUntil is when a wait of a duration or until a time is over, by the run's clock; 0 for one that asks. An end that was
// named counts, where it comes first.
func (d *driver) waitUntil(with map[string]any, row *dagrun.TaskRecord) (dagrun.Time, error) {
	if text, ok := with["duration"].(string); ok {
		span, err := dagspec.ParseDuration(text)
		until := row.AttemptAt + dagrun.Time(span)
		if named, bad := time.Parse(namedTime, row.Ref); bad == nil {
			until = min(until, d.clock.own(dagrun.Time(named.UnixMilli())))
		}
		return until, err
	}
	if text, ok := with["until"].(string); ok {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0, fmt.Errorf("with.until: %q is no time such as 2026-11-20T03:00:00Z", text)
		}
		return d.clock.own(max(dagrun.Time(t.UnixMilli()), 1)), nil
	}
	return 0, nil
}

// probe asks once; what does not answer is asked again later, as what is not there yet. Why is the task's reason meanwhile.
func (d *driver) probe(ctx context.Context, task *Task) dagrun.Event {
	what, _ := task.Resolved.With["http"].(map[string]any)
	if d.life.config.Prober == nil || what == nil {
		return dagrun.Event{Kind: dagrun.EvFinished, Result: &dagrun.Result{Kind: dagrun.KindConfig, Reason: "this worker cannot wait for that"}}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %v", probeTimeout))
	defer cancel()
	there, why, err := d.life.config.Prober.Probe(ctx, what)
	switch {
	case err != nil:
		return dagrun.Event{Kind: dagrun.EvFinished, Result: &dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}}
	case there:
		return dagrun.Event{Kind: dagrun.EvFinished, Result: &dagrun.Result{}}
	}
	again := d.clock.now() + dagrun.Time(probeInterval(what).Milliseconds())
	return dagrun.Event{Kind: dagrun.EvWaits, Until: again, Text: why}
}

func probeInterval(what map[string]any) time.Duration {
	if text, ok := what["interval"].(string); ok {
		if span, err := dagspec.ParseDuration(text); err == nil && span > 0 {
			return span.Std()
		}
	}
	return probeEvery
}

// openChild asks for the child run, until the database answers. Asked again, it finds the same child.
func (d *driver) openChild(ctx context.Context, task *Task, a dagrun.Action) dagrun.Event {
	child, err := childOf(task.Resolved.With)
	if err != nil {
		return dagrun.Event{Kind: dagrun.EvFinished, Result: &dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}}
	}
	child.Claim, child.Task, child.Attempt = d.claim, a.Task, a.Attempt
	id, err := d.life.enqueue(ctx, child)
	if err != nil {
		return dagrun.Event{Kind: dagrun.EvFinished, Result: &dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}}
	}
	return dagrun.Event{Kind: dagrun.EvWaits, Ref: strconv.FormatInt(int64(id), 10)}
}

// enqueue asks for a child run. What the database refuses for good is an error; anything else is tried until ctx ends.
func (l *life) enqueue(ctx context.Context, c queue.Child) (queue.RunID, error) {
	if l.config.Self.Only != 0 {
		defer l.claimer.wakeup.send() // nobody tells it: the child is in a lane that it does not serve
	}
	return backoff.Retry(ctx, func() (queue.RunID, error) {
		id, err := l.session.EnqueueChild(ctx, c)
		var refused *queue.Error
		if errors.As(err, &refused) && !saysNothingOfRun(err) || errors.Is(err, queue.ErrLeaseLost) {
			return id, backoff.Permanent(err)
		}
		return id, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(l.pauses()))
}

// childOf reads what dag.run and dag.enqueue have in common.
func childOf(with map[string]any) (c queue.Child, err error) {
	c.DAG, _ = with["dag"].(string)
	c.Queue, _ = with["queue"].(string)
	if params, ok := with["params"]; ok {
		text, err := json.Marshal(params)
		if err != nil {
			return c, fmt.Errorf("with.params: %w", err)
		}
		c.Params = dagrun.JSON(text)
	}
	if labels, ok := with["labels"].(map[string]any); ok {
		c.Labels = make(map[string]string, len(labels))
		for k, v := range labels {
			c.Labels[k] = fmt.Sprint(v)
		}
	}
	if priority, ok := with["priority"]; ok {
		n, err := strconv.Atoi(fmt.Sprint(priority))
		if err != nil {
			return c, fmt.Errorf("with.priority: %v is no whole number", priority)
		}
		c.Priority = &n
	}
	return c, nil
}
