package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// begin takes the run up where the last drive left it, if there was one.
func (d *driver) begin(ctx context.Context) error {
	var err error
	if d.def, err = d.definition(ctx); err != nil {
		return fmt.Errorf("definition of %s version %d: %w", d.claim.DAG, d.claim.Version, err)
	}
	left, err := d.load(ctx)
	if err != nil {
		return err
	}
	d.clock = newRunClock(d.life.clock, latest(&left.Saved))
	d.clock.restored(&left.Saved)
	options, invalid := d.options()
	if d.run, err = dagrun.Restore(d.def.Graph, options, left.Saved); err != nil {
		return fmt.Errorf("run %d: %w", d.claim.Run, err)
	}
	d.beforeBegin(left, invalid)
	_ = d.step(dagrun.Event{Kind: dagrun.EvBegin, Text: "driver lost"})
	d.lookAt = time.Now().Add(tellAfter)
	return nil
}

// definition is nearly always at hand: only where the database has to be asked, and is away, is there something to wait for.
func (d *driver) definition(ctx context.Context) (*queue.Definition, error) {
	read := func(ctx context.Context) (*queue.Definition, error) {
		return d.life.session.Definition(ctx, d.claim.DAGID, d.claim.Version)
	}
	def, err := read(ctx)
	if err != nil && saysNothingOfRun(err) {
		return ask(ctx, d, readDefinition, read)
	}
	return def, err
}

// load reads what a former drive left; of a fresh run there is nothing.
func (d *driver) load(ctx context.Context) (*queue.Loaded, error) {
	if d.claim.Fresh() {
		return &queue.Loaded{Saved: dagrun.Saved{Run: d.claim.Row}, Mailbox: queue.Mailbox{Inbox: d.claim.Inbox}}, nil
	}
	all, err := ask(ctx, d, readRun, func(ctx context.Context) ([]*queue.Loaded, error) {
		return d.life.session.Load(ctx, []*queue.Claim{d.claim})
	})
	if err != nil {
		return nil, err
	}
	if all[0] == nil {
		return nil, fmt.Errorf("load run %d: %w", d.claim.Run, queue.ErrLeaseLost)
	}
	return all[0], nil
}

// beforeBegin steps what a former drive could not: results that were settled, lost drives past the limit, requests.
func (d *driver) beforeBegin(left *queue.Loaded, invalid error) {
	if limit := d.def.Spec.MaxDrives; limit > 0 && d.claim.Losses >= limit {
		_ = d.step(dagrun.Event{Kind: dagrun.EvDriveLimit, Text: fmt.Sprintf("gave up after %d lost drives", d.claim.Losses)})
	}
	settled := map[dagrun.TaskID]bool{}
	for _, s := range left.Settled {
		settled[s.Task] = true
		_ = d.step(dagrun.Event{Kind: dagrun.EvSettled, Task: s.Task, Attempt: s.Attempt, Result: &dagrun.Result{Outputs: s.Outputs}})
	}
	d.takeUpLogs(left, settled)
	d.stepMail(&left.Mailbox)
	if invalid != nil {
		_ = d.step(dagrun.Event{Kind: dagrun.EvRefuse, Text: "invalid: " + invalid.Error()})
	}
}

// options are the same in every drive of a run. Params that the DAG does not take are told apart: the run is refused.
func (d *driver) options() (o dagrun.Options, invalid error) {
	scope := dagspec.Context{
		RunID: int64(d.claim.Run), DAG: d.claim.DAG, LogicalAt: d.claim.LogicalAt,
		Schedule: d.claim.Schedule, PreviousLogicalAt: d.claim.PreviousLogicalAt, Env: d.life.config.Env,
	}
	var given map[string]any
	if err := json.Unmarshal(d.claim.Params, &given); err != nil {
		invalid = fmt.Errorf("params: %w", err)
	} else if scope.Params, err = d.def.Spec.Params(given); err != nil {
		invalid = err
	}
	o = dagrun.Options{Context: scope, Seed: uint64(d.claim.Run), Generation: d.claim.Row.Generation, TimeText: timeText}
	var err error
	if o.Precomputed, err = d.claim.Results(); err != nil {
		invalid = err
	}
	return o, invalid
}

// timeText writes a time as reasons of the database do.
func timeText(at dagrun.Time) string { return time.UnixMilli(int64(at)).UTC().Format(time.RFC3339) }

// readMail reads what is asked of the run, if anything may be.
func (d *driver) readMail(ctx context.Context) error {
	if !d.mail {
		return nil
	}
	boxes, err := ask(ctx, d, readMail, func(ctx context.Context) ([]*queue.Mailbox, error) {
		return d.life.session.ReadMail(ctx, []*queue.Claim{d.claim})
	})
	if err != nil {
		return err
	}
	if boxes[0] == nil {
		return fmt.Errorf("mail of run %d: %w", d.claim.Run, queue.ErrLeaseLost)
	}
	d.mail = false
	d.stepMail(boxes[0])
	return nil
}

// stepMail hands requests to the core. One that makes no sense for this DAG is refused here, so that it is decided.
func (d *driver) stepMail(box *queue.Mailbox) {
	for i := range box.Controls {
		c := &box.Controls[i]
		control, err := c.For(d.def.Graph)
		if err != nil {
			d.extra.decisions = append(d.extra.decisions, dagrun.Decision{ID: c.ID, Outcome: dagrun.Refused, Message: err.Error()})
			continue
		}
		_ = d.step(dagrun.Event{Kind: dagrun.EvControl, Control: control})
	}
	d.seen = box.Inbox
}
