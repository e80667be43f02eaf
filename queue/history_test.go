package queue_test

import (
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestControls_ListsWhatWasAsked(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run := d.enqueue(t, d.store)
	d.claim(t, run)
	for _, verb := range []dagrun.Verb{dagrun.VerbPause, dagrun.VerbResume, dagrun.VerbCancel} {
		if _, err := d.store.Control(t.Context(), queue.Ask{Run: run, Verb: verb}); err != nil {
			t.Fatal(err)
		}
	}
	d.exec(t, `INSERT INTO oarlock.controls (run_id, step, verb, args, by) VALUES ($1, 'load', 'child_ended', '{"ref": "9", "outputs": {"a": 1}}', 'run 9')`, run)
	controls, err := d.store.Controls(t.Context(), run)
	if err != nil || len(controls) != 4 || controls[0].Verb != dagrun.VerbPause || controls[2].Outcome != dagrun.Accepted || string(controls[2].Args) != `{"now": false}` {
		t.Fatalf("%+v, %v", controls, err)
	}
	if child := controls[3]; child.Step != "load" || string(child.Args) != `{"ref": "9"}` {
		t.Errorf("%+v", child)
	}
}

func TestAttempts_NamesStepsItemsAndReplacements(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run := d.enqueue(t, d.store)
	d.exec(t, `INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, failure_kind, exit_code, signal, reason, worker, started_at, finished_at)
		VALUES ($1, 1, 'i', 2, 1, 1, 'failed', 'signal', 137, 9, 'killed', 'w1', now(), now()), ($1, 3, '', 0, 1, 1, 'lost', NULL, NULL, NULL, '', NULL, NULL, NULL)`, run)
	attempts, err := d.store.Attempts(t.Context(), run)
	if err != nil || len(attempts) != 2 {
		t.Fatalf("%+v, %v", attempts, err)
	}
	if a := attempts[0]; a.Step != "load~2" || a.Item != "i" || a.FailureKind != "signal" || *a.ExitCode != 137 || a.Signal != 9 || a.Worker != "w1" || a.FinishedAt.IsZero() {
		t.Errorf("%+v", a)
	}
	if a := attempts[1]; a.Step != "@exit" || a.ExitCode != nil || a.Signal != 0 || !a.StartedAt.IsZero() {
		t.Errorf("%+v", a)
	}
}

func TestEvents_GoOnAfterOne(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run, other := d.enqueue(t, d.store), d.enqueue(t, d.store)
	d.exec(t, `INSERT INTO oarlock.events (run_id, kind, by, worker, epoch, step, item, alt, message) VALUES
		($1, 'began', NULL, 'w1', 1, NULL, NULL, NULL, 'began'), ($1, 'grown', 'ana', NULL, NULL, 1, 'i', 1, 'grew'), ($2, 'began', NULL, NULL, NULL, NULL, NULL, NULL, '')`, run, other)
	events, err := d.store.Events(t.Context(), run, 0)
	if err != nil || len(events) != 2 || events[0].Kind != "began" || events[0].Epoch != 1 || events[0].Worker != "w1" || events[0].Step != "" {
		t.Fatalf("%+v, %v", events, err)
	}
	rest, err := d.store.Events(t.Context(), run, events[0].ID)
	if err != nil || len(rest) != 1 || rest[0].Step != "load~1" || rest[0].Item != "i" || rest[0].By != "ana" || rest[0].At.IsZero() {
		t.Errorf("%+v, %v", rest, err)
	}
}
