package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker/logship"
)

// body is the execution of one attempt, or of its publish, on this worker.
type body struct {
	task    dagrun.TaskID
	attempt int
	publish bool
	timed   bool // the driver reports its start to the core, because a timeout counts from then
	stop    context.CancelCauseFunc
	now     chan struct{} // closed: end at once, without grace
	grace   time.Duration // time to end by itself after stop
	hurry   sync.Once
	lost    atomic.Pointer[string] // why the worker gave the body up; nil: it did not

	// Set by the goroutine of the body before it posts the end.
	log      Log // still open because a publish follows, which writes to it too; nil: closed
	chunks   []queue.Chunk
	lastLine string
}

// stopError is the cause with which the context of a body is canceled.
type stopError struct {
	cause dagrun.Request
	why   string // with RequestNone: why the worker gave the body up
}

func (e stopError) Error() string { return "stopped: " + cmp.Or(e.why, e.cause.String()) }

// start begins the body of an attempt, or its publish, in a goroutine that posts the end to the event queue. If the task cannot be
// described, start posts a failure of kind config instead. Once the life has ended, it does nothing.
func (d *driver) start(a dagrun.Action) {
	task, err := d.describe(a)
	if err != nil {
		d.life.config.Meter.AttemptEnded(AttemptEnd{DAG: d.claim.DAG, Body: OtherBody, Outcome: string(dagrun.KindConfig)})
		b := &body{task: a.Task, attempt: a.Attempt, publish: a.Publish, stop: func(error) {}, now: make(chan struct{})}
		d.bodies.add(b) // its end gives the slots of the task back
		d.events.put(driverEvent{event: ended(a, dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}), body: b})
		return
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(d.ctx)) // only kill ends a body, and abandon waits for it
	b := &body{task: a.Task, attempt: a.Attempt, publish: a.Publish, stop: stop, now: task.Now}
	spec := d.run.Spec(a.Task)
	if kill := task.Body.Kill; kill != nil {
		b.grace = kill.Grace.Std()
	}
	b.timed = !a.Publish && spec.Timeout > 0 || a.Publish && spec.PublishTimeout > 0
	d.life.drivers.bodies.Add(1)
	if d.ctx.Err() != nil { // the life has ended: its session may be closed at any moment
		d.life.drivers.bodies.Add(-1)
		stop(nil)
		return
	}
	d.bodies.add(b)
	if t := d.slots.byTask[a.Task]; t != nil && t.permit != nil {
		task.pools = t.permit.line.uses
	}
	if o := d.life.drivers.danger.Load(); o != nil {
		b.giveUp(o)
	}
	log := d.kept[a.Task]
	delete(d.kept, a.Task)
	if log == nil {
		log = d.life.logs.Open(d.logName(a))
	}
	d.bodies.running.Go(func() {
		defer d.life.drivers.bodies.Add(-1)
		defer stop(nil)
		d.runBody(ctx, b, task, log)
	})
}

func ended(a dagrun.Action, res dagrun.Result) dagrun.Event {
	return dagrun.Event{Kind: dagrun.EvFinished, Task: a.Task, Attempt: a.Attempt, Result: &res}
}

// runBody executes a body and posts its end to the event queue, as finished or as lost. It closes the log and hands the last chunks
// over with the end. Before or after a publish it leaves the log open, because a publish that follows, or another try of it, writes
// there too; the driver closes that log later.
func (d *driver) runBody(ctx context.Context, b *body, task *Task, log Log) {
	task.Stdout, task.Stderr = log.Stdout(), log.Stderr()
	if noting, ok := log.(interface{ Note(text string) }); ok {
		task.Note = noting.Note
	}
	task.Started = func() {
		if b.timed {
			d.events.put(driverEvent{event: dagrun.Event{Kind: dagrun.EvStarted, At: d.clock.now(), Task: b.task, Attempt: b.attempt}})
		}
	}
	start, failures := time.Now(), d.life.host.failuresSoFar()
	res := task.outcome(d.execute(ctx, task, log))
	took, ended := time.Since(start), d.clock.now() // before the log is closed, which takes a while in an outage of the database
	d.leaveAlone(ctx, task)
	d.life.ends.add()
	if res.Unstarted {
		d.life.cannotStart(res.Reason)
		res.Reason = "not started: " + res.Reason
	} else {
		d.life.host.proves(failures)
	}
	event := dagrun.Event{Kind: dagrun.EvFinished, At: ended, Task: b.task, Attempt: b.attempt, Result: &res}
	mayRepeat := res.Kind != dagrun.KindNone && !res.Unstarted && !res.Permanent // a lost attempt or publish begins again
	if why := b.lost.Load(); why != nil && mayRepeat {
		event = dagrun.Event{Kind: dagrun.EvLost, At: ended, Task: b.task, Attempt: b.attempt, Text: *why}
		res.Kind = dagrun.KindLost
	} else if res.Kind == dagrun.KindLost && mayRepeat && !b.publish {
		event = dagrun.Event{Kind: dagrun.EvLost, At: ended, Task: b.task, Attempt: b.attempt, Text: res.Reason}
	}
	d.meter(ctx, task, &res, took)
	if b.publish || task.Body.Publish != nil && res.Kind == dagrun.KindNone {
		b.log = log
	} else {
		b.chunks, b.lastLine = log.Close(ctx, endWord(res))
	}
	d.events.put(driverEvent{event: event, body: b})
}

// leaveAloneTimeout bounds the call that closes pools for a service. If it fails, other bodies ask the service and hear the same.
const leaveAloneTimeout = 2 * time.Second

// leaveAlone closes the pools of a task that limit by rate or by key, if the service that its body called wants no more requests for
// a while. The body still has its permit, so no other body of the same key starts in between.
func (d *driver) leaveAlone(ctx context.Context, task *Task) {
	if task.LeaveAlone <= 0 || len(task.pools) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveAloneTimeout)
	defer cancel()
	if err := d.life.session.LeaveAlone(ctx, d.claim.Run, task.pools, task.LeaveAlone); err != nil {
		d.life.log.Warn("could not close the pools of a service that wants no more requests", "run", d.claim.Run, "err", err)
		return
	}
	d.life.permits.shut(task.pools)
}

// execute reads the secrets of a task, has log mask them, and returns the result of the task's executor. If the executor panics, it
// returns a failure of kind panic, and the worker goes on.
//
// In three cases it returns a failure without a call of the executor: of kind config if this worker has no such executor or cannot
// read a secret, of kind spawn if the task was stopped meanwhile, and Unstarted if the host lacks something that every body needs.
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

// kill asks the body of the attempt in a to end, without grace if a.Now is set. It does nothing if this body is not under way. It
// does not wait: the body has ended only once its end is posted.
func (d *driver) kill(a dagrun.Action) {
	if b := d.bodies.attempt(a.Task, a.Attempt); b != nil {
		b.kill(stopError{cause: a.Cause}, a.Now)
	}
}

func (b *body) kill(cause stopError, now bool) {
	if now {
		b.hurry.Do(func() { close(b.now) })
	}
	b.stop(cause)
}

// abandon frees everything that a drive still holds. It kills the bodies, waits for all goroutines of the drive, closes the kept
// logs without storing their last chunks, and releases the slots. The caller has canceled d.ctx before, which ends the other
// goroutines. A drive that ended in order has left no body.
func (d *driver) abandon() {
	d.bodies.each(func(b *body) { b.kill(stopError{cause: dagrun.RequestCancel}, true) })
	d.bodies.running.Wait()
	d.calls.asking.Wait()
	d.calls.parting.Wait()
	for _, log := range d.kept {
		log.Close(d.ctx, string(dagrun.KindLost)) // frees its resources: without the claim the last chunks must not be written
	}
	d.slots.releaseSpare()
	d.slots.releasePermits()
	for task := range d.slots.byTask {
		d.slots.giveBack(task)
	}
	d.timer.Stop()
}

// bodies holds the bodies of a drive that are under way. Its driver adds and removes them. driverSet.giveUp reads them from another
// goroutine, because the driver may be waiting for the database.
type bodies struct {
	mu      sync.Mutex
	byTask  map[dagrun.TaskID]*body
	running sync.WaitGroup
}

func (b *bodies) add(one *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byTask[one.task] = one
}

// remove removes a body. It reports false if the body is not there: it was removed before, or another body of its task has
// followed.
func (b *bodies) remove(one *body) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byTask[one.task] != one {
		return false
	}
	delete(b.byTask, one.task)
	return true
}

// attempt returns the body of an attempt; nil: it is not under way.
func (b *bodies) attempt(task dagrun.TaskID, attempt int) *body {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.byTask[task]; one != nil && one.attempt == attempt {
		return one
	}
	return nil
}

func (b *bodies) each(do func(*body)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.byTask {
		do(one)
	}
}

// Limits of a task's outputs, with every executor.
const (
	MaxTextBytes   = 64 << 10 // per text value
	MaxJSONBytes   = 1 << 20  // per other value, or text declared as json
	MaxOutputBytes = 1 << 20  // for all values of a task
)

const elsewhere = "put large data elsewhere, and output the address of the data"

// outcome returns the result of a body as the core gets it, with the secrets in the reason masked. A success turns into a failure
// of kind output if CheckOutputs refuses its outputs. If the executor has settled the task, outcome sets Settled instead of
// checking.
func (t *Task) outcome(res dagrun.Result) dagrun.Result {
	res.Reason = t.Masked(res.Reason)
	switch {
	case res.Kind != dagrun.KindNone || t.Publish: // a publish has no outputs
		return res
	case t.settling:
		res.Settled = true // the executor has called CheckOutputs before it settled
		return res
	}
	if res.SnoozeUntil > 0 || res.HasExit && t.Body != nil && slices.Contains(t.Body.SkipExitCode, res.ExitCode) {
		return res // the task has not succeeded
	}
	if err := t.CheckOutputs(res.Outputs); err != nil {
		return dagrun.Result{Kind: dagrun.KindOutput, HasExit: res.HasExit, ExitCode: res.ExitCode, Reason: err.Error(), Stderr: res.Stderr}
	}
	return res
}

// CheckOutputs returns an error if the outputs of a body are too large or cannot be stored, or if they lack one that the step
// declares and that is not optional. A limit holds for each value, for all values of the task, and for the outputs of the whole
// run. The worker calls CheckOutputs for each success that is not settled. An executor that makes anything durable together with
// its outputs must call it before.
func (t *Task) CheckOutputs(outputs dagrun.JSON) error {
	switch {
	case t.taken+len(outputs) > dagrun.MaxRunOutputs:
		return fmt.Errorf("the outputs of the run have more than %d bytes: %s", dagrun.MaxRunOutputs, elsewhere)
	case holdsNUL(string(outputs)):
		return errors.New("an output holds a NUL byte, which Postgres cannot store: encode the output, for example with base64")
	}
	if err := dagspec.CheckDepth(outputs); err != nil {
		return fmt.Errorf("outputs: %w", err)
	}
	if len(outputs) <= MaxTextBytes && len(t.declared()) == 0 {
		return nil // no value can be too large, and none can be missing: this saves the decoding
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal([]byte(cmp.Or(outputs, "{}")), &values); err != nil {
		return fmt.Errorf("the outputs are not a JSON object: %w", err)
	}
	for _, o := range t.declared() {
		if values[o.Name] == nil && !o.Optional {
			return fmt.Errorf("output %s was not written: %s, or declare it with optional: true", o.Name, t.howToWrite(o))
		}
	}
	total := 0
	for name, value := range values {
		size, limit := t.measure(name, value)
		if size > limit {
			return fmt.Errorf("output %s has %d bytes, at most %d: %s", name, size, limit, elsewhere)
		}
		if total += size; total > MaxOutputBytes {
			return fmt.Errorf("the outputs have more than %d bytes: %s", MaxOutputBytes, elsewhere)
		}
	}
	return nil
}

// measure returns the size of an output and the largest size that is allowed. A text has its size without the quotes and escapes of
// JSON, and may have MaxTextBytes, or MaxJSONBytes if the step declares it as json. Any other value has the size of its JSON,
// except that null has size 0, and may have MaxJSONBytes.
func (t *Task) measure(name string, value json.RawMessage) (size, limit int) {
	var text *string
	if err := json.Unmarshal(value, &text); err != nil {
		return len(value), MaxJSONBytes // a list, a map, a number
	}
	if text == nil {
		return 0, MaxJSONBytes
	}
	if t.declares(name, "json") {
		return len(*text), MaxJSONBytes
	}
	return len(*text), MaxTextBytes
}

// declared returns the outputs that the step declares; nil if the task has no body.
func (t *Task) declared() []dagspec.Output {
	if t.Body == nil {
		return nil
	}
	return t.Body.Outputs
}

func (t *Task) declares(name, kind string) bool {
	for _, o := range t.declared() {
		if o.Name == name {
			return o.Type == kind
		}
	}
	return false
}

// howToWrite says how the body of the task gives an output.
func (t *Task) howToWrite(o dagspec.Output) string {
	switch {
	case o.From != "":
		return "write " + o.From
	case t.Body.Action != "":
		return "return it from " + t.Body.Action
	}
	return "write " + o.Name + "=… to $OARLOCK_OUTPUT"
}

// Masked returns the text with *** in place of the task's secrets, in every form of shapes. Executors call it for texts that are
// stored and shown as they are: a reason, or an answer of a server that repeats its request.
func (t *Task) Masked(text string) string {
	for _, s := range t.shapes() {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// MaskedCut is Masked for the beginning of a longer text. It also cuts off an end that may be the first part of a secret, which
// Masked does not recognize.
func (t *Task) MaskedCut(text string) string {
	return logship.MaskBeginning(text, t.shapes())
}

// MaskedEnd is Masked for the end of a longer text. It also cuts off a beginning that may be the last part of a secret.
func (t *Task) MaskedEnd(text string) string { return logship.MaskEnd(text, t.shapes()) }

// MaskedName is Masked for the name of a header. It ignores case, because the server or the HTTP client chooses the capitals. If it
// masks something, the rest of the name becomes lower case.
func (t *Task) MaskedName(name string) string {
	lower := strings.ToLower(name)
	masked := lower
	for _, s := range t.shapes() {
		masked = strings.ReplaceAll(masked, strings.ToLower(s), "***")
	}
	if masked == lower {
		return name
	}
	return masked
}

// shapes returns all texts to mask: the task's secrets as they are, quoted, and encoded as by logship.Shapes. It leaves out texts
// of fewer than minSecretBytes. The longest come first because one text may be a part of another.
func (t *Task) shapes() []string {
	var shapes []string
	for _, secret := range t.masked() {
		shapes = append(shapes, logship.Shapes(secret)...)
		for _, s := range []string{secret, strings.TrimSpace(secret)} { // as error messages quote it
			quoted := strconv.Quote(s)
			shapes = append(shapes, quoted[1:len(quoted)-1])
		}
	}
	shapes = slices.DeleteFunc(shapes, func(s string) bool { return len(s) < minSecretBytes })
	slices.SortFunc(shapes, func(a, b string) int { return len(b) - len(a) })
	return shapes
}

// masked returns the values that must not be shown: the secrets that the task got, and t.hidden.
func (t *Task) masked() []string {
	return slices.AppendSeq(slices.Clone(t.hidden), maps.Values(t.Secrets))
}

// holdsNUL reports whether a JSON text holds \u0000, which JSON allows and Postgres refuses. A \u0000 after an escaped backslash does
// not count.
func holdsNUL(text string) bool {
	for {
		before, after, found := strings.Cut(text, `\u0000`)
		if !found {
			return false
		}
		if slashes := len(before) - len(strings.TrimRight(before, `\`)); slashes%2 == 0 {
			return true
		}
		text = after
	}
}

// Lacks reports whether an error means that this host has no file descriptor or no memory left. Every body needs both, so such an
// error is not the fault of a DAG.
func Lacks(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// lackHints holds, by error number, what is used up and what the operator can do.
var lackHints = map[syscall.Errno]string{
	syscall.EMFILE:  "the worker has no file descriptor left: lower slots of the worker, or raise the limit (ulimit -n)",
	syscall.ENFILE:  "the whole host has no file descriptor left: raise fs.file-max",
	syscall.ENOMEM:  "the host has no memory left: lower slots of the worker",
	syscall.ENOBUFS: "the host has no memory left: lower slots of the worker",
	syscall.EAGAIN:  "the worker's user or its cgroup has too many processes: lower slots of the worker, or raise the limit (ulimit -u, pids.max)",
}

// Unstarted returns the result of an attempt that this host could not start. An executor may return it only if no part of the body
// has run. The worker then hands the run on, and claims nothing until a trial shows that the host can start tasks. place says what
// the host lacks; "": a hint is derived from err.
func Unstarted(err error, place string) dagrun.Result {
	why := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		why = errno.Error()
		if place == "" {
			place = lackHints[errno]
		}
	}
	if place != "" {
		why += " (" + place + ")"
	}
	return dagrun.Result{Kind: dagrun.KindLost, Unstarted: true, Reason: why}
}
