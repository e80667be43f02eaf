package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/queue"
)

// A standby that commits do not wait for lacks the last commits of the primary.
func pair(t *testing.T) (outside, *pgcluster.Node, *pgcluster.Node) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts two servers")
	}
	primary := pgcluster.Start(t, nil)
	standby := primary.Standby(t)
	return open(t, primary, standby), primary, standby
}

func TestFailover_LostCommitsForfeitTheClaim(t *testing.T) {
	t.Parallel()
	o, primary, standby := pair(t)
	a, b := o.session(t, "a"), o.session(t, "b")
	id := o.enqueue(t)
	d := claim(t, a)
	started := d.starts(t)
	standby.Follow(t, primary)
	standby.Cut(t)
	d.finish(t, started[0])
	started = d.starts(t) // acknowledged, and about to be lost
	primary.Crash(t)
	standby.Promote(t)

	d.finish(t, started[0])
	err := d.commit(t.Context())
	if !errors.Is(err, queue.ErrLeaseLost) {
		t.Fatalf("commit after lost commits: %v, want ErrLeaseLost", err)
	}
	select {
	case <-d.claim.Lost():
	default:
		t.Error("the driver was not told that its claim is forfeited")
	}
	if got := o.text(t, "SELECT string_agg(state, ' ' ORDER BY step) FROM oarlock.tasks WHERE run_id = $1", id); got != "running" {
		t.Errorf("tasks are %q, want what the standby had: running", got)
	}
	d.claim.Leave()
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && o.text(t, "SELECT state FROM oarlock.runs WHERE run_id = $1", id) == "running"; {
		if looked, _ := a.Look(t.Context(), queue.Load{}); looked.Sweep { // its connections led to the other server
			_, _ = a.SweepAll(t.Context()) // finds a claim that no driver is on
		}
	}
	again := claim(t, b)
	if again.claim.Run != id || again.claim.Epoch <= d.claim.Epoch {
		t.Fatalf("claimed run %d in epoch %d, want run %d in an epoch after %d", again.claim.Run, again.claim.Epoch, id, d.claim.Epoch)
	}
	if err := again.toEnd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := o.text(t, "SELECT state FROM oarlock.runs WHERE run_id = $1", id); got != "succeeded" {
		t.Errorf("the run is %s", got)
	}
}

func TestFailover_SameEpochTwiceLetsOnlyOneWrite(t *testing.T) {
	t.Parallel()
	o, primary, standby := pair(t)
	a, b := o.session(t, "a"), o.session(t, "b")
	o.enqueue(t)
	kept := claim(t, a)
	running := kept.starts(t)
	id := o.enqueue(t)
	standby.Follow(t, primary)
	standby.Cut(t)
	old := claim(t, a) // on the primary alone
	old.starts(t)
	primary.Crash(t)
	standby.Promote(t)

	fresh := claim(t, b)
	if fresh.claim.Run != id || fresh.claim.Epoch != old.claim.Epoch {
		t.Fatalf("claimed run %d in epoch %d, want run %d in epoch %d again", fresh.claim.Run, fresh.claim.Epoch, id, old.claim.Epoch)
	}
	begun := fresh.starts(t)
	fresh.finish(t, begun[0])
	begun = fresh.starts(t) // as far as the old one had come, and further
	kept.finish(t, running[0])
	if err := kept.toEnd(t.Context()); err != nil {
		t.Fatalf("a claim that both servers have: %v", err)
	}
	select {
	case <-old.claim.Lost():
	default:
		t.Error("on the promoted server a drive that it knows nothing of believes in its claim until it writes")
	}
	before := o.text(t, "SELECT string_agg(t::text, '' ORDER BY step) FROM oarlock.tasks t WHERE run_id = $1", id)
	old.ready, _ = old.run.Ready()
	if err := old.toEnd(t.Context()); !errors.Is(err, queue.ErrLeaseLost) {
		t.Errorf("a claim that the promoted server never had: %v, want ErrLeaseLost", err)
	}
	if after := o.text(t, "SELECT string_agg(t::text, '' ORDER BY step) FROM oarlock.tasks t WHERE run_id = $1", id); after != before {
		t.Errorf("it wrote all the same:\n%s\n%s", before, after)
	}
	fresh.finish(t, begun[0])
	if err := fresh.toEnd(t.Context()); err != nil {
		t.Fatal(err)
	}
}
