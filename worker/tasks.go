package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// happened takes one thing in.
func (d *driver) happened(h *happening) {
	switch {
	case h.mail:
		d.mail = true
	case h.yield:
		d.ending.yields = true
	case h.ticket != nil:
		d.granted(h)
	case h.body != nil:
		d.ended(h)
	default:
		_ = d.step(h.event)
	}
}

// granted hands a grant in, unless the wish was withdrawn while it was on its way.
func (d *driver) granted(h *happening) {
	if d.slots.byTask[h.event.Task] != h.ticket {
		return // released already, or another wish has taken its place
	}
	if d.step(h.event) != nil {
		d.slots.giveBack(h.event.Task)
	}
}

// ended takes in how a body ended. What it left of its log rides with the record.
func (d *driver) ended(h *happening) {
	b := h.body
	if d.bodies.remove(b) {
		d.slots.keepSpare(b.task)
	}
	if b.log != nil {
		d.kept[b.task] = b.log
	}
	d.keepLog(b.task, b.chunks, b.lastLine)
	if res := h.event.Result; res != nil && res.Unstarted && b.publish {
		d.ending.unfit = true
		_ = d.step(dagrun.Event{Kind: dagrun.EvDrain}) // first: a publish waits for no slot, and would begin again at once
	}
	_ = d.step(h.event)
}

// giveUp ends a body because its drive cannot go on with it; its attempt is recorded as lost, not as failed.
func (b *body) giveUp(o *order) {
	b.lost.Store(&o.why)
	b.kill(dagrun.RequestNone, o.now)
}

// ask queues what is wanted at the gate, and takes back what no longer is. While slots are free the grant is in the
// postbox when it returns, so that the start is part of the same commit.
func (d *driver) ask(ready *dagrun.Ready) {
	for _, task := range ready.Drops {
		d.slots.giveBack(task)
	}
	for _, want := range ready.Wants {
		if d.slots.byTask[want.Task] == nil {
			d.askFor(want)
		}
	}
	d.slots.forgo()
	d.slots.releaseSpare()
}

// runSlots is what a run has of the worker's gate. It belongs to the run's driver.
type runSlots struct {
	gate       *Gate
	byTask     map[dagrun.TaskID]*Ticket // places in its queue, and slots
	spare      []*Ticket                 // of bodies that have ended: for the next wishes, before others get them
	isExpected bool                      // a slot is kept for the run, which has not asked yet
}

// keepSpare keeps the slots of a task whose body has ended.
func (s *runSlots) keepSpare(task dagrun.TaskID) {
	if t := s.byTask[task]; t != nil {
		delete(s.byTask, task)
		s.spare = append(s.spare, t)
	}
}

// releaseSpare gives back the slots of bodies that have ended, for which the run has no other use.
func (s *runSlots) releaseSpare() {
	for _, t := range s.spare {
		t.Release()
	}
	s.spare = s.spare[:0]
}

// handOn has a task take over the slots of one that has just ended, if the gate allows it. nil: it does not.
func (s *runSlots) handOn(want *dagrun.Want, order Order) *Ticket {
	last := len(s.spare) - 1
	if last < 0 || !s.spare[last].HandOn(want.Slots, order) {
		return nil
	}
	t := s.spare[last]
	s.spare = s.spare[:last]
	s.byTask[want.Task] = t
	return t
}

// ask queues a task at the gate.
func (s *runSlots) ask(want *dagrun.Want, order Order, grant func(*Ticket)) *Ticket {
	ask := s.gate.Ask
	if s.isExpected && want.Slots > 0 { // a publish needs none of its own, and leaves it to a body
		ask, s.isExpected = s.gate.Arrive, false
	}
	t := ask(want.Slots, order, grant)
	s.byTask[want.Task] = t
	return t
}

// giveBack releases what a task has of the gate: a place in its queue, or slots.
func (s *runSlots) giveBack(task dagrun.TaskID) {
	if t := s.byTask[task]; t != nil {
		delete(s.byTask, task)
		t.Release()
	}
}

func (d *driver) askFor(want dagrun.Want) {
	order := Order{RunID: d.claim.Run, Run: d.claim.Priority, Step: want.Priority, Since: int64(want.Since)}
	grant := happening{event: dagrun.Event{Kind: dagrun.EvGranted, Task: want.Task}}
	if t := d.slots.handOn(&want, order); t != nil {
		grant.ticket = t
		d.post.put(grant)
		return
	}
	t := d.slots.ask(&want, order, func(t *Ticket) {
		grant.ticket = t
		d.post.put(grant)
	})
	if t.waits() {
		d.line = append(d.line, inLine{want.Task, t, time.Now().Add(tellAfter)})
	}
}

// What a ready task waits for is told once that has lasted for tellAfter: most waits last for less, and would cost a write
// for nothing. Of a great many a second tells so many of a run.
const (
	tellAfter = time.Second
	tellMost  = 100
)

// inLine is a wish that was not granted at once.
type inLine struct {
	task   dagrun.TaskID
	ticket *Ticket
	due    time.Time
}

// tell has the rows of tasks say what they wait for, if they have for a while.
func (d *driver) tell(now time.Time) {
	if len(d.line) > 0 {
		d.tellLine(now)
	}
	if d.run.Bounded() && !d.lookAt.After(now) {
		d.tellHeld()
		d.lookAt = now.Add(tellAfter)
	}
}

// tellLine is about those that wait for slots, in the order in which they asked.
func (d *driver) tellLine(now time.Time) {
	for len(d.line) > 0 && !d.line[0].due.After(now) {
		first := d.line[0]
		why := first.ticket.why(d.life.config.Self.Name)
		if why != "" && d.slots.byTask[first.task] == first.ticket {
			if !d.life.tells.take(now) {
				d.line[0].due = now.Add(tellAfter)
				return
			}
			_ = d.step(dagrun.Event{Kind: dagrun.EvQueued, Task: first.task, Text: why + d.ownShare(why)})
		}
		d.line = d.line[1:]
	}
}

// tellHeld is about those that a limit of the run holds back: they ask for no slots. Where tasks that fill the limit wait for slots,
// those of the worker are what holds them all back.
func (d *driver) tellHeld() {
	by := d.clock.now() - dagrun.Time(tellAfter.Milliseconds())
	for _, task := range d.run.Held(by, tellMost) {
		_ = d.step(dagrun.Event{Kind: dagrun.EvQueued, Task: task, Text: d.whyAhead(task)})
	}
}

// whyAhead says what the task ahead of a held one waits for; "": there is none, or it has its slot by now.
func (d *driver) whyAhead(task dagrun.TaskID) string {
	ahead, ok := d.run.Ahead(task)
	if !ok || d.slots.byTask[ahead] == nil {
		return ""
	}
	why := d.slots.byTask[ahead].why(d.life.config.Self.Name)
	return why + d.ownShare(why)
}

// tellShare bounds how many tasks of a run a reason names.
const tellShare = 3

// ownShare adds to a reason which tasks of this run hold slots. Without it nobody sees that steps of one run wait for each
// other: a client that needs its server started holds the slot that the server waits for.
func (d *driver) ownShare(why string) string {
	if !strings.HasSuffix(why, "are taken") {
		return ""
	}
	slots, names := 0, []string{}
	for task := range d.bodies.byTask {
		if t := d.slots.byTask[task]; t != nil && t.slots > 0 {
			slots += t.slots
			names = append(names, d.def.Graph.TaskName(task))
		}
	}
	if slots == 0 {
		return ""
	}
	slices.Sort(names)
	if more := len(names) - tellShare; more > 0 {
		names = append(names[:tellShare], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf(", %d by this run: %s", slots, strings.Join(names, ", "))
}

// perform does what was decided, now that it is durable. Nothing here takes long: what does goes on by itself and
// reports to the postbox.
func (d *driver) perform(actions []dagrun.Action) {
	for _, a := range actions {
		switch a.Kind {
		case dagrun.ActStart:
			d.start(a)
		case dagrun.ActOpen:
			d.open(a)
		case dagrun.ActKill:
			d.kill(a)
		case dagrun.ActCancelChild:
			d.cancelChild(a)
		case dagrun.ActProbe:
			d.probeCache(a)
		}
	}
}

// cancelChild asks for the end of a child run; how it ends comes as a control. A run that waits for nothing else parks at
// once, and nobody would ask again.
func (d *driver) cancelChild(a dagrun.Action) {
	child, err := strconv.ParseInt(a.Ref, 10, 64)
	if err != nil {
		return // not one of ours: nothing to cancel
	}
	ctx := d.ctx
	d.errands.parting.Go(func() {
		_, _ = backoff.Retry(ctx, func() (struct{}, error) {
			return struct{}{}, d.life.config.Cancel(ctx, queue.RunID(child), a.Now)
		}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(d.life.pauses()))
	})
}

// probeCache looks a result up. A cache that does not answer has nothing.
func (d *driver) probeCache(a dagrun.Action) {
	ctx, step := d.ctx, d.stepName(a.Task)
	body, err := d.bodyOf(a.Task)
	shared := err == nil && body.Cache != nil && body.Cache.Shared()
	d.errands.ask(func() {
		event := dagrun.Event{Kind: dagrun.EvProbed}
		if outputs, found, err := d.life.session.Cached(ctx, d.claim.Run, step, a.Key, shared); err == nil && found {
			event.Result = &dagrun.Result{Outputs: outputs}
		}
		d.answer(a, event)
	})
}

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

// longestAskPause between two tries to read something of a run. There is no last one: the lease decides, or how long reads fail.
const longestAskPause = time.Second

// kindOfRead is what is read of runs.
type kindOfRead int

const (
	readRun kindOfRead = iota
	readMail
	readDefinition
	kindsOfReads
)

// reads is what a worker knows of reads of its runs that fail, by kind: each may need another privilege.
type reads struct {
	mu     sync.Mutex
	mended bool   // one was answered since the last that failed
	unread Outage // keepRecords' alone
	of     [kindsOfReads]struct {
		n     int // drives whose read failed and goes again
		fails queue.Failure
	}
}

// failed takes in the error of a read that goes again.
func (r *reads) failed(kind kindOfRead, began time.Time, first bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := &r.of[kind]
	if first {
		of.n++
	}
	if !of.fails.Failing() {
		if of.fails.Since = time.Now(); first {
			of.fails.Since = began
		}
	}
	of.fails.Err = err
	r.mended = false
}

// answered says that a read was: what fails beside it is not for want of a database.
func (r *reads) answered(kind kindOfRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[kind].fails = queue.Failure{}
	r.mended = true
}

// over says that a read which failed before does not go again, answered or not.
func (r *reads) over(kind kindOfRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[kind].n--; r.of[kind].n == 0 {
		r.of[kind].fails = queue.Failure{}
	}
}

// failure is the longest of those that go on. Where none does, mended says whether that is known from an answer.
func (r *reads) failure() (f queue.Failure, mended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.of {
		if g := r.of[i].fails; g.Failing() && (!f.Failing() || g.Since.Before(f.Since)) {
			f = g
		}
	}
	return f, r.mended
}

// ask reads something of the run. A database that is away, or that refuses the worker, says nothing about the run, so it is asked
// until it answers or the claim is lost.
func ask[T any](ctx context.Context, d *driver, kind kindOfRead, read func(context.Context) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		select {
		case <-d.claim.Lost():
			cancel(fmt.Errorf("run %d: %w", d.claim.Run, queue.ErrLeaseLost))
		case <-ctx.Done():
		}
	})
	began, tries := time.Now(), 0
	defer func() {
		if tries > 0 {
			d.life.reads.over(kind)
		}
	}()
	pause := d.life.pauses()
	pause.InitialInterval, pause.MaxInterval = 10*time.Millisecond, longestAskPause
	return backoff.Retry(ctx, func() (T, error) {
		answer, err := read(ctx)
		switch {
		case err == nil:
			d.life.reads.answered(kind)
		case !saysNothingOfRun(err):
			err = backoff.Permanent(err)
		default:
			d.life.reads.failed(kind, began, tries == 0, err)
			tries++
		}
		return answer, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(pause))
}

// saysNothingOfRun says whether an error is about the database alone, so that what got it goes again.
func saysNothingOfRun(err error) bool { return queue.Passing(err) || queue.OfDatabase(err) }

// lookAtReads takes in whether the database lets runs be read now.
func (l *life) lookAtReads() queue.Failure {
	f, mended := l.reads.failure()
	switch {
	case !f.Failing():
		l.fitness.clear(unfitReads)
		if !mended {
			l.reads.unread = Outage{} // who was to read is gone, and nothing is known
		}
	case time.Since(f.Since) >= tellFailure:
		l.fitness.set(unfitReads, f.Since, fmt.Sprintf("the database lets no runs be read (%s)", f.Cause()))
	}
	l.reads.unread.told(l.log, f.Since, f.Err, "the database lets no runs be read: nothing is claimed", "the database lets runs be read again")
	return f
}
