package worker

import (
	"strconv"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

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
