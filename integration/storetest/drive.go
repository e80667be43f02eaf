package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// maxTurns bounds the turns of a drive. A drive that needs more is taken for an endless loop.
const maxTurns = 1_000_000

// Body is one attempt of a task, as Drive hands it to Behaviour.
type Body struct {
	Claim   *queue.Claim
	Task    dagrun.TaskID
	Name    string // name of the task
	Step    *dagspec.Step
	Attempt int
	Publish bool
}

// Behaviour decides how the bodies of a drive end. With the zero value each body succeeds at once.
type Behaviour struct {
	Body func(Body) dagrun.Result      // result of a body; nil: success without outputs
	Wait func(Body) dagrun.Time        // when a wait ends, 0 for unknown; nil: at once
	Mail func(Body) bool               // reports whether to read the run's controls before this body begins
	Now  func() dagrun.Time            // nil: time.Now
	Park dagrun.Duration               // waits of at least this length give the claim back; 0: all of them
	See  func(*queue.Batch)            // sees each batch just before it is committed
	Stop func(dagrun.Ready) (yes bool) // reports whether to drain the drive now
}

// Driven is the result of a drive: it has either a Leave or a Verdict.
type Driven struct {
	Leave   *dagrun.Leave
	Verdict *dagrun.Verdict
	Commits int
}

// Drive drives a claimed run until it parks, is drained or ends. When a commit fails, Drive returns that error and the
// claim no longer belongs to it.
func Drive(ctx context.Context, s Session, claim *queue.Claim, b Behaviour) (Driven, error) {
	d := &drive{session: s, claim: claim, behaviour: b, seen: claim.Inbox, asked: map[int64]bool{}}
	if b.Now == nil {
		d.behaviour.Now = func() dagrun.Time { return stamp(time.Now()) }
	}
	if err := d.restore(ctx); err != nil {
		return d.driven, fmt.Errorf("drive run %d: %w", claim.Run, err)
	}
	for range maxTurns {
		if d.core.Over() {
			return d.driven, nil
		}
		if err := d.turn(ctx); err != nil {
			return d.driven, fmt.Errorf("drive run %d: %w", claim.Run, err)
		}
	}
	return d.driven, fmt.Errorf("drive run %d: no end after %d turns", claim.Run, maxTurns)
}

// drive is the loop that owns one run.
type drive struct {
	session   Session
	claim     *queue.Claim
	behaviour Behaviour
	core      *dagrun.Run
	graph     *dagrun.Graph
	seen      int64
	asked     map[int64]bool // ids of the controls that were stepped
	events    []dagrun.Event // events that are not stepped yet
	driven    Driven
}

// restore continues the run where the last drive left it.
func (d *drive) restore(ctx context.Context) error {
	def, err := d.session.Definition(ctx, d.claim.DAGID, d.claim.Version)
	if err != nil {
		return err
	}
	d.graph = def.Graph
	left := &queue.Loaded{Saved: dagrun.Saved{Run: d.claim.Row}, Mailbox: queue.Mailbox{Inbox: d.claim.Inbox}}
	if !d.claim.Fresh() {
		all, err := d.session.Load(ctx, []*queue.Claim{d.claim})
		if err != nil {
			return err
		}
		if all[0] == nil {
			return queue.ErrLeaseLost
		}
		left = all[0]
	}
	options, err := d.options(def.Spec)
	if err != nil {
		return err
	}
	if d.core, err = dagrun.Restore(def.Graph, options, left.Saved); err != nil {
		return err
	}
	return d.begin(def.Spec, left)
}

// begin steps the events that earlier drives left for this one.
func (d *drive) begin(spec *dagspec.Spec, left *queue.Loaded) error {
	var events []dagrun.Event
	if spec.MaxDrives > 0 && d.claim.Losses >= spec.MaxDrives {
		events = append(events, dagrun.Event{Kind: dagrun.EvDriveLimit, Text: "too many lost drives"})
	}
	for _, s := range left.Settled {
		events = append(events, dagrun.Event{Kind: dagrun.EvSettled, Task: s.Task, Attempt: s.Attempt, Result: &dagrun.Result{Outputs: s.Outputs}})
	}
	for _, e := range events {
		if err := d.step(e); err != nil {
			return err
		}
	}
	if err := d.readMail(&left.Mailbox); err != nil {
		return err
	}
	return d.step(dagrun.Event{Kind: dagrun.EvBegin})
}

func (d *drive) options(spec *dagspec.Spec) (dagrun.Options, error) {
	var given map[string]any
	if err := json.Unmarshal(d.claim.Params, &given); err != nil {
		return dagrun.Options{}, fmt.Errorf("params: %w", err)
	}
	params, err := spec.Params(given)
	if err != nil {
		return dagrun.Options{}, err
	}
	results, err := d.claim.Results()
	return dagrun.Options{
		Context:     dagspec.Context{Params: params, RunID: int64(d.claim.Run), DAG: d.claim.DAG, LogicalAt: d.claim.LogicalAt, Schedule: d.claim.Schedule, PreviousLogicalAt: d.claim.PreviousLogicalAt},
		Seed:        uint64(d.claim.Run),
		Precomputed: results,
		Generation:  d.claim.Row.Generation,
		ParkAfter:   max(d.behaviour.Park, 1),
	}, err
}

// turn steps one event, then commits and performs what follows from it.
func (d *drive) turn(ctx context.Context) error {
	if len(d.events) > 0 {
		e := d.events[0]
		d.events = d.events[1:]
		if err := d.step(e); err != nil {
			return err
		}
	}
	ready, ok := d.core.Ready()
	if d.behaviour.Stop != nil && d.behaviour.Stop(ready) {
		if err := d.step(dagrun.Event{Kind: dagrun.EvDrain}); err != nil {
			return err
		}
		ready, ok = d.core.Ready()
	}
	for len(ready.Wants) > 0 { // granting one slot may bring up more wants
		wants := slices.Clone(ready.Wants)
		for _, w := range wants {
			if err := d.step(dagrun.Event{Kind: dagrun.EvGranted, Task: w.Task}); err != nil {
				return err
			}
		}
		ready, ok = d.core.Ready()
	}
	switch {
	case ok:
		return d.commit(ctx, &ready)
	case len(d.events) > 0:
		return nil
	case ready.WakeAt == 0:
		return errors.New("it waits for nothing")
	default:
		return d.step(dagrun.Event{Kind: dagrun.EvTick, At: max(ready.WakeAt, d.behaviour.Now())})
	}
}

// step hands an event to the core. An event that comes too late is ignored.
func (d *drive) step(e dagrun.Event) error {
	e.At = max(e.At, d.behaviour.Now())
	if err := d.core.Step(e); err != nil && !errors.Is(err, dagrun.ErrStale) {
		return fmt.Errorf("%s: %w", e.Kind, err)
	}
	return nil
}

// commit makes the ready records durable, then performs the actions.
func (d *drive) commit(ctx context.Context, ready *dagrun.Ready) error {
	b := &queue.Batch{
		Claim: d.claim, Seen: d.seen, Records: ready.Records, Leave: ready.Leave, Result: ready.Result, Keeps: d.keeps(ready.Records.Tasks),
	}
	if d.behaviour.See != nil {
		d.behaviour.See(b)
	}
	err := d.session.Commit(ctx, b)
	if errors.Is(err, queue.ErrInboxMoved) {
		return d.askMail(ctx)
	}
	if err != nil {
		return err
	}
	d.driven.Commits++
	d.driven.Leave, d.driven.Verdict = ready.Leave, ready.Result
	actions := slices.Clone(ready.Actions)
	d.core.Advance()
	for _, a := range actions {
		if err := d.perform(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// askMail reads the controls from the store and steps them.
func (d *drive) askMail(ctx context.Context) error {
	boxes, err := d.session.ReadMail(ctx, []*queue.Claim{d.claim})
	if err != nil {
		return err
	}
	if boxes[0] == nil {
		return queue.ErrLeaseLost
	}
	return d.readMail(boxes[0])
}

// readMail steps the controls that were not stepped yet.
func (d *drive) readMail(box *queue.Mailbox) error {
	for i := range box.Controls {
		c, err := box.Controls[i].For(d.graph)
		if err != nil {
			return err
		}
		if d.asked[c.ID] {
			continue
		}
		d.asked[c.ID] = true
		if err := d.step(dagrun.Event{Kind: dagrun.EvControl, Control: c}); err != nil {
			return err
		}
	}
	d.seen = box.Inbox
	return nil
}

func (d *drive) perform(ctx context.Context, a dagrun.Action) error {
	body := Body{Claim: d.claim, Task: a.Task, Name: d.graph.TaskName(a.Task), Attempt: a.Attempt, Publish: a.Publish}
	if spec := d.core.Spec(a.Task); spec != nil {
		body.Step, _ = spec.Data.(*dagspec.Step)
	}
	switch a.Kind {
	case dagrun.ActStart:
		return d.start(ctx, body)
	case dagrun.ActOpen:
		return d.open(ctx, body)
	case dagrun.ActKill:
		d.kill(a)
	case dagrun.ActCancelChild:
		// the driver of the child run reads the cancel in the child's own inbox; Drive starts no process to be told
	case dagrun.ActProbe:
		return d.probe(ctx, a)
	}
	return nil
}

// probe looks into the cache. A lookup that fails counts as a miss.
func (d *drive) probe(ctx context.Context, a dagrun.Action) error {
	e := dagrun.Event{Kind: dagrun.EvProbed, Task: a.Task}
	step, _ := d.core.Spec(a.Task).Data.(*dagspec.Step)
	outputs, found, err := d.session.Cached(ctx, d.claim.Run, d.graph.StepName(a.Task.Step), a.Key, step.Cache.Shared())
	if err == nil && found {
		e.Result = &dagrun.Result{Outputs: outputs}
	}
	d.events = append(d.events, e)
	return ctx.Err()
}

// keeps returns the results that the commit puts into the cache.
func (d *drive) keeps(tasks []dagrun.TaskRecord) (keeps []queue.Keep) {
	for i := range tasks {
		t := &tasks[i]
		if t.State != dagrun.TaskSucceeded || t.CacheKey == "" {
			continue
		}
		if step, ok := d.core.Spec(t.ID).Data.(*dagspec.Step); ok && step.Cache != nil {
			keeps = append(keeps, queue.Keep{Task: t.ID, Step: d.graph.StepName(t.ID.Step), TTL: step.Cache.TTL.Std(), Shared: step.Cache.Shared()})
		}
	}
	return keeps
}

// start plays one body from its begin to its end.
func (d *drive) start(ctx context.Context, b Body) error {
	if d.behaviour.Mail != nil && d.behaviour.Mail(b) {
		if err := d.askMail(ctx); err != nil {
			return err
		}
	}
	var res dagrun.Result
	if d.behaviour.Body != nil {
		res = d.behaviour.Body(b)
	}
	d.events = append(d.events,
		dagrun.Event{Kind: dagrun.EvStarted, Task: b.Task, Attempt: b.Attempt},
		dagrun.Event{Kind: dagrun.EvFinished, Task: b.Task, Attempt: b.Attempt, Result: &res})
	return nil
}

// kill ends a body as if by a signal, unless its end was stepped already.
func (d *drive) kill(a dagrun.Action) {
	for i := range d.events {
		if e := &d.events[i]; e.Kind == dagrun.EvFinished && e.Task == a.Task && e.Attempt == a.Attempt {
			e.Result = &dagrun.Result{Kind: dagrun.KindSignal, Signal: 15, ExitCode: 143, HasExit: true}
		}
	}
}

// open begins a wait, or continues one after a restore.
func (d *drive) open(ctx context.Context, b Body) error {
	e := dagrun.Event{Kind: dagrun.EvWaits, Task: b.Task, Attempt: b.Attempt}
	switch {
	case d.core.Spec(b.Task).Body == dagrun.BodyChild:
		id, err := d.child(ctx, b)
		if err != nil {
			return err
		}
		e.Ref = strconv.FormatInt(int64(id), 10)
	case d.behaviour.Wait == nil:
		e.Kind, e.Result = dagrun.EvFinished, &dagrun.Result{}
	default:
		e.Until = d.behaviour.Wait(b)
	}
	d.events = append(d.events, e)
	return nil
}

func (d *drive) child(ctx context.Context, b Body) (queue.RunID, error) {
	resolved, err := b.Step.Resolve(d.core.Scope(b.Task))
	if err != nil {
		return 0, err
	}
	c := queue.Child{Claim: d.claim, Task: b.Task, Attempt: b.Attempt}
	c.DAG, _ = resolved.With["dag"].(string)
	if params, ok := resolved.With["params"]; ok {
		raw, err := json.Marshal(params)
		if err != nil {
			return 0, err
		}
		c.Params = dagrun.JSON(raw)
	}
	return d.session.EnqueueChild(ctx, c)
}
