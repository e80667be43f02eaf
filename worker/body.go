package worker

import (
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

// bodies are those of a drive that are under way. They belong to its driver, but for the order to give all of them up: that
// is for when the driver waits for a database that is away.
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

// remove says whether it was there.
func (b *bodies) remove(one *body) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byTask[one.task] != one {
		return false
	}
	delete(b.byTask, one.task)
	return true
}

// attempt is the body of an attempt, nil if it is not under way.
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

// Limits of what a task puts out, whatever executes it.
const (
	MaxTextBytes   = 64 << 10 // a value that is a text
	MaxJSONBytes   = 1 << 20  // any other value, and a text declared as json
	MaxOutputBytes = 1 << 20  // all values of a task
)

const elsewhere = "put large data elsewhere and output its address"

// outcome is the result of a body as it goes to the core.
func (t *Task) outcome(res dagrun.Result) dagrun.Result {
	res.Reason = t.Masked(res.Reason)
	switch {
	case res.Kind != dagrun.KindNone || t.Publish: // a publish puts nothing out
		return res
	case t.settling:
		res.Settled = true // checked before it was
		return res
	}
	if err := t.CheckOutputs(res.Outputs); err != nil {
		return dagrun.Result{Kind: dagrun.KindOutput, HasExit: res.HasExit, ExitCode: res.ExitCode, Reason: err.Error()}
	}
	return res
}

// CheckOutputs says what is wrong with the outputs of a body that is about to succeed. Each result passes it; an executor
// that makes anything durable together with its outputs asks before.
func (t *Task) CheckOutputs(outputs dagrun.JSON) error {
	switch {
	case t.taken+len(outputs) > dagrun.MaxRunOutputs:
		return fmt.Errorf("the outputs of the run have more than %d bytes: %s", dagrun.MaxRunOutputs, elsewhere)
	case holdsNUL(string(outputs)):
		return errors.New("an output holds a NUL byte, which no text in Postgres can: encode it, with base64 for one")
	case len(outputs) <= MaxTextBytes:
		return nil // whatever is in it: most outputs are small
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal([]byte(outputs), &values); err != nil {
		return fmt.Errorf("the outputs are no JSON object: %w", err)
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

// measure is how long a value is, as its reader gets it, and how long it may be.
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

func (t *Task) declares(name, kind string) bool {
	var declared []dagspec.Output
	if t.Body != nil {
		declared = t.Body.Outputs
	}
	for _, o := range declared {
		if o.Name == name {
			return o.Type == kind
		}
	}
	return false
}

// Masked takes secrets out of a text that is stored and shown as it is: a reason, an answer that repeats what it was sent.
func (t *Task) Masked(text string) string {
	for _, s := range t.shapes() {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// MaskedCut is Masked for the beginning of a longer text. It leaves off what may be the beginning of a secret, which Masked
// would not know for one.
func (t *Task) MaskedCut(text string) string {
	return logship.MaskBeginning(text, t.shapes())
}

// MaskedName is Masked for the name of a header, whose capitals the server or the HTTP client has chosen.
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

// shapes are the forms in which secrets are masked, the longest first: one may be a part of another.
func (t *Task) shapes() []string {
	var shapes []string
	for _, secret := range t.masked() {
		shapes = append(shapes, logship.Shapes(secret)...)
		for _, s := range []string{secret, strings.TrimSpace(secret)} { // as an error quotes it
			quoted := strconv.Quote(s)
			shapes = append(shapes, quoted[1:len(quoted)-1])
		}
	}
	shapes = slices.DeleteFunc(shapes, func(s string) bool { return len(s) < minSecretBytes })
	slices.SortFunc(shapes, func(a, b string) int { return len(b) - len(a) })
	return shapes
}

// masked are the values that nobody is to see.
func (t *Task) masked() []string {
	return slices.AppendSeq(slices.Clone(t.hidden), maps.Values(t.Secrets))
}

// holdsNUL finds what JSON allows and Postgres refuses: \u0000, unless its backslash is one that is escaped.
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

// Lacks says whether an error means that this host has no descriptor or no memory left. Every body needs both, so no DAG is to
// blame.
func Lacks(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// lackHints say what to do where something is used up.
var lackHints = map[syscall.Errno]string{
	syscall.EMFILE:  "the worker has no file descriptor left: lower slots, or raise the limit (ulimit -n)",
	syscall.ENFILE:  "the whole host has no file descriptor left: raise fs.file-max",
	syscall.ENOMEM:  "the host has no memory left: lower slots",
	syscall.ENOBUFS: "the host has no memory left: lower slots",
	syscall.EAGAIN:  "the worker's user or its cgroup has too many processes: lower slots, or raise the limit (ulimit -u, pids.max)",
}

// Unstarted is how an attempt ends that this host could not start. Nothing of its body may have happened. The worker hands the run
// on, claims nothing more, and tries its host again before it does. The place says what the host lacks; "": the error says it.
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
