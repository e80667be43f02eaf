package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// body is one attempt under way here, or the publish of one.
type body struct {
	task    dagrun.TaskID
	attempt int
	publish bool
	timed   bool // its start is told, as its timeout counts from then
	stop    context.CancelCauseFunc
	now     chan struct{} // closed: no time for grace
	grace   time.Duration // to end by itself
	hurry   sync.Once
	lost    atomic.Pointer[string] // why the driver gave it up, if it did

	// Set by its goroutine before its end is posted.
	log      Log // still open: its publish writes to it too
	chunks   []queue.Chunk
	lastLine string
}

// stopError is why the context of a body ends.
type stopError struct{ cause dagrun.Request }

func (e stopError) Error() string { return "stopped: " + e.cause.String() }

// start runs the body of an attempt. A task that cannot even be described fails without one.
func (d *driver) start(a dagrun.Action) {
	task, err := d.describe(a)
	if err != nil {
		d.life.config.Meter.AttemptEnded(AttemptEnd{DAG: d.claim.DAG, Body: OtherBody, Outcome: string(dagrun.KindConfig)})
		d.post.put(happening{event: ended(a, dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}), body: &body{task: a.Task}})
		return
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(d.ctx)) // a body ends by kill alone, and is waited for
	b := &body{task: a.Task, attempt: a.Attempt, publish: a.Publish, stop: stop, now: task.Now}
	spec := d.run.Spec(a.Task)
	if kill := task.Body.Kill; kill != nil {
		b.grace = kill.Grace.Std()
	}
	b.timed = !a.Publish && spec.Timeout > 0 || a.Publish && spec.PublishTimeout > 0
	d.life.fleet.bodies.Add(1)
	if d.ctx.Err() != nil { // the life has ended: its session may be closed any moment
		d.life.fleet.bodies.Add(-1)
		stop(nil)
		return
	}
	d.bodies.add(b)
	if o := d.life.fleet.danger.Load(); o != nil {
		b.giveUp(o)
	}
	log := d.kept[a.Task]
	delete(d.kept, a.Task)
	if log == nil {
		log = d.life.logs.Open(d.logName(a))
	}
	d.bodies.running.Go(func() {
		defer d.life.fleet.bodies.Add(-1)
		defer stop(nil)
		d.runBody(ctx, b, task, log)
	})
}

func ended(a dagrun.Action, res dagrun.Result) dagrun.Event {
	return dagrun.Event{Kind: dagrun.EvFinished, Task: a.Task, Attempt: a.Attempt, Result: &res}
}

// runBody executes a body and posts its end. Its log is closed with it, unless a publish follows.
func (d *driver) runBody(ctx context.Context, b *body, task *Task, log Log) {
	task.Stdout, task.Stderr = log.Stdout(), log.Stderr()
	if noting, ok := log.(interface{ Note(text string) }); ok {
		task.Note = noting.Note
	}
	task.Started = func() {
		if b.timed {
			d.post.put(happening{event: dagrun.Event{Kind: dagrun.EvStarted, At: d.clock.now(), Task: b.task, Attempt: b.attempt}})
		}
	}
	start, failures := time.Now(), d.life.host.failuresSoFar()
	res := task.outcome(d.execute(ctx, task, log))
	took, ended := time.Since(start), d.clock.now() // before its log is closed, which takes a while without the database
	d.life.ends.add()
	if res.Unstarted {
		d.life.cannotStart(res.Reason)
		res.Reason = "not started: " + res.Reason
	} else {
		d.life.host.proves(failures)
	}
	event := dagrun.Event{Kind: dagrun.EvFinished, At: ended, Task: b.task, Attempt: b.attempt, Result: &res}
	if why := b.lost.Load(); why != nil && res.Kind != dagrun.KindNone && !res.Unstarted {
		event = dagrun.Event{Kind: dagrun.EvLost, At: ended, Task: b.task, Attempt: b.attempt, Text: *why}
		res.Kind = dagrun.KindLost
	}
	d.meter(ctx, task, &res, took)
	if b.publish || task.Body.Publish != nil && res.Kind == dagrun.KindNone {
		b.log = log
	} else {
		b.chunks, b.lastLine = log.Close(ctx, endWord(res))
	}
	d.post.put(happening{event: event, body: b})
}

// execute calls the executor; a panic in it is the task's failure, not the worker's.
func (d *driver) execute(ctx context.Context, task *Task, log Log) (res dagrun.Result) {
	executor, ok := d.life.executors[kindOf(task.Body)]
	if !ok {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: fmt.Sprintf("this worker does not execute %s", kindOf(task.Body))}
	}
	if err := d.reveal(ctx, task); errors.Is(err, errSecretStopped) {
		return dagrun.Result{Kind: dagrun.KindSpawn, Reason: err.Error()}
	} else if Lacks(err) || errors.Is(err, syscall.EAGAIN) {
		return Unstarted(err, "")
	} else if err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	log.Mask(task.masked())
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(task.Stderr, "panic: %v\n\n%s", p, debug.Stack())
			res = dagrun.Result{Kind: dagrun.KindPanic, Reason: fmt.Sprintf("panic: %v", p)}
		}
	}()
	return executor.Execute(ctx, task)
}

// kill has a body end. It has ended only once its end was posted.
func (d *driver) kill(a dagrun.Action) {
	if b := d.bodies.attempt(a.Task, a.Attempt); b != nil {
		b.kill(a.Cause, a.Now)
	}
}

func (b *body) kill(cause dagrun.Request, now bool) {
	if now {
		b.hurry.Do(func() { close(b.now) })
	}
	b.stop(stopError{cause})
}

// abandon ends everything that is left of a drive, and waits until it is gone. After a drive that ended in order there is
// nothing.
func (d *driver) abandon() {
	d.bodies.each(func(b *body) { b.kill(dagrun.RequestCancel, true) })
	d.bodies.running.Wait()
	d.errands.asking.Wait()
	d.errands.parting.Wait()
	for _, log := range d.kept {
		log.Close(d.ctx, string(dagrun.KindLost)) // for its resources: what it returns is not ours to write
	}
	d.slots.releaseSpare()
	for task := range d.slots.byTask {
		d.slots.giveBack(task)
	}
	d.timer.Stop()
}
