package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestControl_SendsEveryVerb(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run := d.enqueue(t, d.store)
	d.claim(t, run)
	ended := d.enqueue(t, d.store)
	d.end(t, ended, "failed")
	for _, c := range []struct {
		ask  queue.Ask
		want string // outcome, step, item, arguments
	}{
		{queue.Ask{Run: run, Verb: dagrun.VerbPause}, `   {}`},
		{queue.Ask{Run: run, Verb: dagrun.VerbResume, Step: "load", Item: "i"}, ` load i {}`},
		{queue.Ask{Run: run, Verb: dagrun.VerbApprove, Step: "confirm", Outputs: map[string]int{"n": 1}}, ` confirm  {"outputs": {"n": 1}}`},
		{queue.Ask{Run: run, Verb: dagrun.VerbReject, Step: "confirm", Reason: "no"}, ` confirm  {"reason": "no"}`},
		{queue.Ask{Run: run, Verb: dagrun.VerbMark, Step: "load", As: dagrun.TaskSkipped}, ` load  {"as": "skipped", "outputs": {}}`},
		{queue.Ask{Run: run, Verb: dagrun.VerbCancel, Now: true}, `accepted   {"now": true}`},
		{queue.Ask{Run: run, Verb: dagrun.VerbRetry}, `refused   {"mode": "failed"}`},
		{queue.Ask{Run: ended, Verb: dagrun.VerbRetry, Mode: dagrun.RetryFrom, Step: "load"}, ` load  {"mode": "from", "generation": 2}`},
	} {
		got, err := d.store.Control(t.Context(), c.ask)
		if err != nil {
			t.Errorf("%+v: %v", c.ask, err)
			continue
		}
		args := value[string](t, d, "SELECT args::text FROM oarlock.controls WHERE control_id = $1", got.ID)
		if is := string(got.Outcome) + " " + got.Step + " " + got.Item + " " + args; is != c.want || got.Verb != c.ask.Verb || got.Run != c.ask.Run || got.By == "" {
			t.Errorf("%s: %q, want %q", c.ask.Verb, is, c.want)
		}
	}
}

func TestControl_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run := d.enqueue(t, d.store)
	_, err := d.store.Control(t.Context(), queue.Ask{Run: 777, Verb: dagrun.VerbCancel})
	wantError(t, err, queue.ErrNotFound, "OA007")
	_, err = d.store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbCancel, Step: "laod"})
	wantError(t, err, queue.ErrNotFound, "OA007")
	_, err = d.store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbApprove})
	wantError(t, err, nil, "OA013")
	_, err = d.store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbChildEnded, Step: "load"})
	wantError(t, err, nil, "")
	refused, err := d.store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbRetry})
	if err != nil || refused.Outcome != dagrun.Refused || refused.Message == "" {
		t.Errorf("%+v, %v", refused, err)
	}
}

func TestAwaitControl_WaitsForTheDriver(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run := d.enqueue(t, d.store)
	d.claim(t, run)
	asked, err := d.store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbPause})
	if err != nil || !asked.DecidedAt.IsZero() || asked.Outcome != "" {
		t.Fatalf("%+v, %v", asked, err)
	}
	type answer struct {
		queue.Control
		error
	}
	answered := make(chan answer)
	go func() {
		c, err := d.store.AwaitControl(t.Context(), asked)
		answered <- answer{c, err}
	}()
	await.True(t, "two polls", func() bool {
		return value[int](t, d, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%queue/control_status%'") > 0
	})
	d.exec(t, "UPDATE oarlock.controls SET decided_at = now(), outcome = 'applied', state = 'paused' WHERE control_id = $1", asked.ID)
	if got := <-answered; got.error != nil || got.Outcome != dagrun.Applied || got.State != "paused" {
		t.Errorf("%+v", got)
	}
}

func TestAwaitControl_GivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run := d.enqueue(t, d.store)
	d.claim(t, run)
	asked, err := d.store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbPause})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = d.store.AwaitControl(ctx, asked)
	wantError(t, err, context.DeadlineExceeded, "")
	_, err = d.store.AwaitControl(t.Context(), queue.Control{ID: 777})
	wantError(t, err, queue.ErrNotFound, "")
}

func TestControl_OutlivesALostReply(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]queue.Ask{
		"cancel":  {Verb: dagrun.VerbCancel},
		"pause":   {Verb: dagrun.VerbPause, Step: "load"},
		"approve": {Verb: dagrun.VerbApprove, Step: "confirm"},
		"mark":    {Verb: dagrun.VerbMark, Step: "load", As: dagrun.TaskSucceeded, Outputs: map[string]int{"rows": 7}},
		"retry":   {Verb: dagrun.VerbRetry},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newClientBundle(t)
			mine := d.user(t, "ana", "oarlock_submit")
			proxy, url := netfault.Through(t, mine)
			store := d.open(t, url)
			ask.Run = d.enqueue(t, store)
			d.claim(t, ask.Run)
			if ask.Verb == dagrun.VerbRetry {
				d.end(t, ask.Run, "failed")
			}
			cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Cut})
			got, err := store.Control(t.Context(), ask)
			cut.MustFire(t)
			if err != nil || got.ID == 0 || got.Verb != ask.Verb || got.Step != ask.Step || got.Run != ask.Run {
				t.Errorf("%+v, %v", got, err)
			}
			if n := value[int](t, d, "SELECT count(*) FROM oarlock.controls"); n != 1 {
				t.Errorf("%d controls", n)
			}
		})
	}
}

func TestControl_DoesNotAskTwice(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run := d.enqueue(t, d.store)
	d.claim(t, run)
	if _, err := d.store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbCancel, Now: true}); err != nil {
		t.Fatal(err)
	}
	proxy, store := d.through(t)
	cut := proxy.Inject(netfault.Fault{When: netfault.OfType(netfault.Client, 'B'), Do: netfault.Cut})
	_, err := store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbCancel})
	cut.MustFire(t)
	wantError(t, err, queue.ErrUnknown, "")
	if n := value[int](t, d, "SELECT count(*) FROM oarlock.controls"); n != 1 {
		t.Errorf("%d controls", n)
	}
}

// After a lost reply, a request with other outputs is not taken for the request; one that the database has converted is.
func TestControl_KnowsItsOutputsAfterALostReply(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	d.put(t, "name: gate\nsteps: [{id: gate, action: approval, with: {inputs: [{name: n, type: number}, {name: ok, type: boolean}, {name: env, default: dev}, {name: j, type: json}]}}]\n")
	run, err := d.store.Enqueue(t.Context(), queue.Request{DAG: "gate"})
	if err != nil {
		t.Fatal(err)
	}
	d.claim(t, run)
	ask := func(store *queue.Store, outputs any) error {
		_, err := store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbApprove, Step: "gate", Outputs: outputs})
		return err
	}
	given := map[string]any{"n": "1e1", "ok": "true", "j": map[string]any{"b": 1.0, "a": []int{1}}, "comment": "<fine>"}
	if err := ask(d.store, given); err != nil {
		t.Fatal(err)
	}
	proxy, store := d.through(t)
	for name, c := range map[string]struct {
		outputs any
		found   bool
	}{
		"equal":         {given, true},
		"other number":  {map[string]any{"n": "11"}, false},
		"other boolean": {map[string]any{"ok": false}, false},
		"other json":    {map[string]any{"j": map[string]any{"a": []int{1}}}, false},
		"other comment": {map[string]any{"comment": "no"}, false},
	} {
		cut := proxy.Inject(netfault.Fault{When: netfault.OfType(netfault.Client, 'B'), Do: netfault.Cut})
		err := ask(store, c.outputs)
		cut.MustFire(t)
		if (err == nil) != c.found || err != nil && !errors.Is(err, queue.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
