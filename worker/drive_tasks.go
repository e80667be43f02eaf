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

// handle takes in one message from the event queue: it feeds an event to the core, and notes mail or a request to yield for the
// loop of the drive.
func (d *driver) handle(h *driverEvent) {
	switch {
	case h.mail:
		d.hasControls = true
	case h.yield:
		d.ending.yields = true
	case h.request != nil:
		d.granted(h)
	case h.body != nil:
		d.ended(h)
	default:
		_ = d.step(h.event)
	}
}

// granted feeds a grant to the core. It drops the grant if its request was released meanwhile, and gives the slots back if the core
// does not want them any more.
func (d *driver) granted(h *driverEvent) {
	if d.slots.byTask[h.event.Task] != h.request {
		return // the request was released, or the task has another one by now
	}
	if d.step(h.event) != nil {
		d.slots.giveBack(h.event.Task)
	}
}

// ended feeds the end of a body to the core, and keeps the body's slots for the next task of the run. The last pieces of its log
// are stored in the same commit as the record of the end; a log that is still open goes to d.kept. In d.losses it counts a lost
// attempt, and resets the count after a success. If the host could not start a publish, ended has the core hand the run on.
func (d *driver) ended(h *driverEvent) {
	b := h.body
	if d.bodies.remove(b) {
		d.slots.keepSpare(b.task)
	}
	if b.log != nil {
		d.kept[b.task] = b.log
	}
	d.keepLog(b.task, b.chunks, b.lastLine)
	if h.event.Kind == dagrun.EvLost {
		d.losses[b.task]++
	} else if res := h.event.Result; res != nil && res.Kind == dagrun.KindNone {
		delete(d.losses, b.task)
	}
	if res := h.event.Result; res != nil && res.Unstarted && b.publish {
		d.ending.unfit = true
		_ = d.step(dagrun.Event{Kind: dagrun.EvDrain}) // before the end: a publish needs no slot, and would begin again at once
	}
	_ = d.step(h.event)
}

// giveUp asks a body to end for the worker's own reasons; if o.now is set, the body is killed. Unless it still succeeds, or
// fails for good, its attempt is recorded as lost, not as failed.
func (b *body) giveUp(o *order) {
	b.lost.Store(&o.why)
	b.kill(stopError{why: o.why}, o.now)
}

// ask asks the slot queue for the slots that the core wants, and releases the requests that the core drops. Slots of ended tasks
// that no task takes over, and a slot kept for the run, are given back. If slots are free, the grants are in the event queue when
// ask returns, so that the starts are part of the same commit.
func (d *driver) ask(ready *dagrun.Ready) {
	for _, task := range ready.Drops {
		d.slots.giveBack(task)
	}
	for _, want := range ready.Wants {
		if d.slots.byTask[want.Task] == nil {
			d.askFor(want)
		}
	}
	d.slots.releaseReserved()
	d.slots.releaseSpare()
}

// runSlots holds the requests of a run at the worker's slot queue. It belongs to the run's driver.
type runSlots struct {
	queue      *SlotQueue
	permits    *permitQueue
	byTask     map[dagrun.TaskID]*SlotRequest // requests that wait or hold slots
	spare      []*SlotRequest                 // requests of bodies that have ended: the next tasks of the run may take over their slots
	ended      []*permitRequest               // permits of bodies that have ended; the records of these ends are not durable yet
	isExpected bool                           // the slot queue keeps a slot for the run, which has not asked yet
}

// keepSpare keeps the slots of a task that has ended, for the next task of the run: transfer hands them over, or releaseSpare gives
// them back. It keeps the permit of the task until releasePermits.
func (s *runSlots) keepSpare(task dagrun.TaskID) {
	if t := s.byTask[task]; t != nil {
		delete(s.byTask, task)
		if t.permit != nil {
			t.permit.bodyEnded()
			s.ended, t.permit = append(s.ended, t.permit), nil
		}
		s.spare = append(s.spare, t)
	}
}

// releaseSpare gives the slots of ended tasks back to the slot queue, unless another task of the run has taken them over already.
func (s *runSlots) releaseSpare() {
	for _, t := range s.spare {
		t.Release()
	}
	s.spare = s.spare[:0]
}

// releasePermits gives back the permits of bodies that have ended. The records of these ends must be durable, so that no other body
// starts in a pool while the database still says that the ended one runs.
func (s *runSlots) releasePermits() {
	for _, r := range s.ended {
		r.release()
	}
	s.ended = s.ended[:0]
}

// transfer hands the slots of the task that ended last to the task in want, which then needs no grant, and returns the request that
// holds them. It returns nil if no ended task has slots left, if the task needs pools, or if the slot queue refuses: see
// SlotRequest.Transfer. The caller then asks for slots.
func (s *runSlots) transfer(want *dagrun.Want, order Order) *SlotRequest {
	last := len(s.spare) - 1
	if last < 0 || len(want.Pools) > 0 || !s.spare[last].Transfer(want.Slots, order) {
		return nil
	}
	t := s.spare[last]
	s.spare = s.spare[:last]
	s.byTask[want.Task] = t
	return t
}

// ask queues the task in want in the slot queue, and stores and returns its request. If the slot queue keeps a slot for the run,
// this request may take it, unless it needs no slot. A task that needs pools gets its permit first, and is queued then; lane is as
// in permitQueue.request. grant may be called before ask returns.
func (s *runSlots) ask(want *dagrun.Want, order Order, lane int, grant func(*SlotRequest)) *SlotRequest {
	if len(want.Pools) > 0 {
		t := s.queue.newRequest(want.Slots, order, grant)
		t.permitted = true
		s.byTask[want.Task] = t
		t.permit = s.permits.request(want.Pools, order, lane, t, func() { s.queue.enter(t, false) })
		return t
	}
	ask := s.queue.Ask
	if s.isExpected && want.Slots > 0 { // a publish needs no slot: the kept slot stays for a body
		ask, s.isExpected = s.queue.AskReserved, false
	}
	t := ask(want.Slots, order, grant)
	s.byTask[want.Task] = t
	return t
}

// giveBack releases the request of a task, if it has one.
func (s *runSlots) giveBack(task dagrun.TaskID) {
	if t := s.byTask[task]; t != nil {
		delete(s.byTask, task)
		t.Release()
	}
}

// poolUses returns what the task in want takes of pools, with the keys of this run.
func (d *driver) poolUses(want *dagrun.Want) []dagrun.PoolUse {
	if !slices.ContainsFunc(want.Pools, func(u dagrun.PoolUse) bool { return u.Key != "" }) {
		return want.Pools
	}
	var labels map[string]string
	_ = json.Unmarshal(d.claim.Labels, &labels) // the database stores nothing else
	var params map[string]any
	if c, ok := d.run.Scope(want.Task).Context().(dagspec.Context); ok {
		params = c.Params
	}
	uses := slices.Clone(want.Pools)
	for i := range uses {
		uses[i].Key = dagspec.PoolKey(uses[i].Key, params, labels)
	}
	return uses
}

// beginLane returns the lane of the run if its DAG begins with pools, so that the lane is the DAG's own, and the task needs one of
// these. Otherwise it returns 0.
func (d *driver) beginLane(uses []dagrun.PoolUse) int {
	if len(uses) == 0 {
		return 0
	}
	if d.pools == nil {
		d.pools = d.def.Spec.Pools()
	}
	if slices.ContainsFunc(uses, func(u dagrun.PoolUse) bool { return d.pools[u.Pool].First }) {
		return d.claim.Lane
	}
	return 0
}

// askFor gets slots for a task: it takes over the slots of a task that has ended, or else asks the slot queue. The grant comes as
// an event, at once or later. If the task has to wait, it is entered in d.line.
func (d *driver) askFor(want dagrun.Want) {
	order := Order{RunID: d.claim.Run, Run: d.claim.Priority, Step: want.Priority, Since: int64(want.Since)}
	grant := driverEvent{event: dagrun.Event{Kind: dagrun.EvGranted, Task: want.Task}}
	want.Pools = d.poolUses(&want)
	if t := d.slots.transfer(&want, order); t != nil {
		grant.request = t
		d.events.put(grant)
		return
	}
	t := d.slots.ask(&want, order, d.beginLane(want.Pools), func(t *SlotRequest) {
		grant.request = t
		d.events.put(grant)
	})
	if t.waits() || t.waitsForPermit() {
		d.line = append(d.line, inLine{task: want.Task, request: t, due: time.Now().Add(tellAfter)})
	}
}

// The reason why a ready task waits is recorded once the wait has lasted for tellAfter. Most waits are shorter, and recording those
// would cost a write for nothing. A worker records at most tellMost such reasons of tasks in the slot queue a second, and a run at
// most tellMost of tasks that a limit of the run holds back.
const (
	tellAfter = time.Second
	tellMost  = 100
)

// inLine is a task that waits in the slot queue.
type inLine struct {
	task    dagrun.TaskID
	request *SlotRequest
	due     time.Time // when the reason of the wait is to be recorded
	told    string    // the reason that was recorded last
}

// explainWaits records in the rows of tasks why they wait, once they have waited for tellAfter: for slots, or because a limit of
// the run holds them back.
func (d *driver) explainWaits(now time.Time) {
	if len(d.line) > 0 {
		d.explainLine(now)
	}
	if d.run.Bounded() && !d.lookAt.After(now) {
		d.explainHeld()
		d.lookAt = now.Add(tellAfter)
	}
}

// explainLine records why the tasks in d.line wait for slots, in the order in which they asked, and drops them from d.line. A task
// that waits for a permit stays there, since its reason changes. If the worker has recorded tellMost reasons within this second, the rest is tried again after tellAfter.
func (d *driver) explainLine(now time.Time) {
	for len(d.line) > 0 && !d.line[0].due.After(now) {
		first := d.line[0]
		if d.slots.byTask[first.task] != first.request {
			d.line = d.line[1:]
			continue
		}
		if why := first.request.why(d.life.config.Self.Name); why != "" && why != first.told {
			if !d.life.tells.take(now) {
				d.line[0].due = now.Add(tellAfter)
				return
			}
			_ = d.step(dagrun.Event{Kind: dagrun.EvQueued, Task: first.task, Text: why + d.ownShare(why)})
			first.told = why
		}
		d.line = d.line[1:]
		if first.request.waitsForPermit() { // the database says why only after a while, and its answer changes
			first.due = now.Add(tellAfter)
			d.line = append(d.line, first)
		}
	}
}

// explainHeld records why tasks wait that a limit of the run holds back, and that therefore do not ask for slots: at most tellMost
// tasks, ready for tellAfter or longer. If a task that counts towards the limit waits for a slot, the reason of that task holds for
// the held ones too.
func (d *driver) explainHeld() {
	by := d.clock.now() - dagrun.Time(tellAfter.Milliseconds())
	for _, task := range d.run.Held(by, tellMost) {
		_ = d.step(dagrun.Event{Kind: dagrun.EvQueued, Task: task, Text: d.whyAhead(task)})
	}
}

// whyAhead returns what the row of task shows as its reason. A limit holds task back: max_active_steps of the run, or
// max_concurrent of its foreach step. The reason is the one of another task, which counts towards the same limit and waits for a
// slot. whyAhead returns "" if no such task waits.
func (d *driver) whyAhead(task dagrun.TaskID) string {
	ahead, ok := d.run.Ahead(task)
	if !ok || d.slots.byTask[ahead] == nil {
		return ""
	}
	why := d.slots.byTask[ahead].why(d.life.config.Self.Name)
	return why + d.ownShare(why)
}

// tellShare is how many tasks of a run a reason names at most.
const tellShare = 3

// ownShare returns an addition to the reason why: how many slots tasks of this run hold, and up to tellShare of their names. It
// returns "" if the run holds none, or if why is about anything but taken slots. The addition shows the user that steps of one run
// wait for each other, for example a client that waits for its server and holds the slot that the server needs.
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

// perform performs the actions of the core, after their commit. It does not wait: work that takes longer runs in a goroutine, which
// posts the result to the event queue.
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

// cancelChild asks for the cancel of a child run in a goroutine, again and again until the request is stored. The end of the child
// comes back as a control. The drive waits for the goroutine before it ends in order: a run that waits for nothing else parks at
// once, and no driver would ask again.
func (d *driver) cancelChild(a dagrun.Action) {
	child, err := strconv.ParseInt(a.Ref, 10, 64)
	if err != nil {
		return // the reference names no run: there is nothing to cancel
	}
	ctx := d.ctx
	d.calls.parting.Go(func() {
		_, _ = backoff.Retry(ctx, func() (struct{}, error) {
			return struct{}{}, d.life.config.Cancel(ctx, queue.RunID(child), a.Now)
		}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(d.life.pauses()))
	})
}

// probeCache looks up a result in the cache in a goroutine, which posts the answer. An error counts as no result.
func (d *driver) probeCache(a dagrun.Action) {
	ctx, step := d.ctx, d.stepName(a.Task)
	body, err := d.bodyOf(a.Task)
	shared := err == nil && body.Cache != nil && body.Cache.Shared()
	d.calls.ask(func() {
		event := dagrun.Event{Kind: dagrun.EvProbed}
		if outputs, found, err := d.life.session.Cached(ctx, d.claim.Run, step, a.Key, shared); err == nil && found {
			event.Result = &dagrun.Result{Outputs: outputs}
		}
		d.answer(a, event)
	})
}

// Prober probes for a wait step whether the awaited condition holds. Probe returns in why for what reason it does not hold yet; the
// driver then probes again later. An error ends the step as failed, without another probe.
type Prober interface {
	Probe(ctx context.Context, with map[string]any) (there bool, why string, err error)
}

const (
	probeEvery   = 10 * time.Second // unless the wait names its interval
	probeTimeout = 30 * time.Second
)

// open begins the wait of a task that needs no slot, or takes it up again: the task waits for a child run, a time or a probe. open
// returns at once; a goroutine posts the answer. A task that cannot be described fails as kind config.
func (d *driver) open(a dagrun.Action) {
	task, err := d.describe(a)
	if err != nil {
		d.answer(a, dagrun.Event{Kind: dagrun.EvFinished, Result: &dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}})
		return
	}
	row, _ := d.run.Task(a.Task)
	ctx := d.ctx
	d.calls.ask(func() {
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

// answer posts the event e to the event queue, as the outcome of action a: it fills in the task and the attempt.
func (d *driver) answer(a dagrun.Action, e dagrun.Event) {
	e.Task, e.Attempt = a.Task, a.Attempt
	d.events.put(driverEvent{event: e})
}

// openWait returns the event of a task that waits: its end if the wait is over, a failure of kind config if its inputs are invalid,
// and otherwise EvWaits, with which the core opens the wait again at the time in Until. A wait for a condition is probed once now.
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

// namedTime is the format in which the row of a wait stores its end, by the database's clock. The next drive cannot read the time of
// this drive's run clock.
const namedTime = "2006-01-02T15:04:05.000Z07:00"

// lastYear is the last year of moments that schedules and the database accept. RFC 3339, in which waits are shown, ends with 9999.
const lastYear = 9899

// waitUntil returns when a wait for a duration or until a time is over, by the run's clock; 0: it is a wait that probes. If the row
// stores an earlier end than the duration gives, that end counts. An error means that the duration or the time is invalid.
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
			return 0, fmt.Errorf("with.until: %q is not a time such as 2026-11-20T03:00:00Z", text)
		}
		if t.UTC().Year() > lastYear {
			return 0, fmt.Errorf("with.until: %q is after the year %d", text, lastYear)
		}
		return d.clock.own(max(dagrun.Time(t.UnixMilli()), 1)), nil
	}
	return 0, nil
}

// probe probes once, for at most probeTimeout, and returns the event for the task: its end if the condition holds, and EvWaits with
// the Prober's reason and the time of the next probe if it does not hold or the target does not answer. An error of the Prober, or
// a worker without one, fails the task as kind config.
func (d *driver) probe(ctx context.Context, task *Task) dagrun.Event {
	what, _ := task.Resolved.With["http"].(map[string]any)
	if d.life.config.Prober == nil || what == nil {
		return dagrun.Event{Kind: dagrun.EvFinished, Result: &dagrun.Result{Kind: dagrun.KindConfig, Reason: "this worker does not know this kind of wait"}}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("there was no answer within %v", probeTimeout))
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

// openChild enqueues the child run of a task, and tries until the database answers. If the child exists already, it finds that one.
// It returns EvWaits with the child's id in Ref, or a failure of kind config if the inputs are invalid or the database refuses the
// child.
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

// enqueue enqueues a child run and returns its id. It returns an error if the database refuses the child for good or the claim is
// lost; after any other error it tries again until ctx ends.
func (l *life) enqueue(ctx context.Context, c queue.Child) (queue.RunID, error) {
	if l.config.Self.Only != 0 {
		defer l.claimer.wakeup.send() // no notification comes: this worker does not serve the lane of the child
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

// childOf reads the inputs that dag.run and dag.enqueue have in common: dag, queue, params, labels and priority. The caller fills
// in the other fields of the child. An error means that an input is invalid.
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

// longestAskPause is the longest pause between two tries to read something of a run. The number of tries has no limit: they end
// when the claim is lost, or when the worker gives its runs up because reads have failed for too long.
const longestAskPause = time.Second

// kindOfRead is a kind of read that a driver does for its run.
type kindOfRead int

const (
	readRun kindOfRead = iota
	readMail
	readDefinition
	kindsOfReads
)

// reads holds the reads of runs that fail now, by kind, because each kind may need another privilege in the database.
type reads struct {
	mu     sync.Mutex
	mended bool   // a read succeeded after the last failure
	unread Outage // owned by keepRecords
	of     [kindsOfReads]struct {
		n     int // drives that repeat a failed read
		fails queue.Failure
	}
}

// failed records the error of a read that will be tried again. first reports whether it is the drive's first error in this read,
// which began at began.
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

// answered records that a read of this kind succeeded. That ends the failure of the kind, though reads of other drives may still
// fail.
func (r *reads) answered(kind kindOfRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[kind].fails = queue.Failure{}
	r.mended = true
}

// over records that a drive does not repeat its failed read any more, with or without an answer. When no drive repeats a read of
// this kind, the failure of the kind is forgotten.
func (r *reads) over(kind kindOfRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[kind].n--; r.of[kind].n == 0 {
		r.of[kind].fails = queue.Failure{}
	}
}

// failure returns the longest failure that goes on. If there is none, mended reports whether a read has succeeded since the last
// failure; otherwise the drives that read are gone, and the state of the database is unknown.
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

// ask reads something of the run in the caller's goroutine. After an error that is about the database and not about the run, such
// as an outage or a missing privilege, it records the failure in life.reads and tries again. It returns the answer, or an error
// that is about the run. It also returns an error when the claim is lost or ctx ends.
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

// saysNothingOfRun reports whether an error is about the database and not about the run, so that the call is worth another try.
func saysNothingOfRun(err error) bool { return queue.Passing(err) || queue.OfDatabase(err) }

// lookAtReads logs the outage of reads, by the reads that fail now. It sets unfitReads once a failure is as old as tellFailure, and
// clears it when no read fails. It returns the longest failure.
func (l *life) lookAtReads() queue.Failure {
	f, mended := l.reads.failure()
	switch {
	case !f.Failing():
		l.fitness.clear(unfitReads)
		if !mended {
			l.reads.unread = Outage{} // no drive reads any more: do not log that reads succeed again
		}
	case time.Since(f.Since) >= tellFailure:
		l.fitness.set(unfitReads, f.Since, fmt.Sprintf("the database lets no runs be read (%s)", f.Cause()))
	}
	l.reads.unread.report(l.log, f.Since, f.Err, "the database lets no runs be read: nothing is claimed", "the database lets runs be read again")
	return f
}
