package queue

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// whileItWaits makes the flush of b wait for the run's row, which a session holds that requests a control meanwhile.
func (y *journalBundle) whileItWaits(b *Batch, control string) error {
	y.tb.Helper()
	client := y.begin()
	y.in(client, control, b.Claim.Run)
	done := y.later(b)
	y.blocked(client, appName(y.worker))
	y.end(client)
	return y.outcome(done)
}

func TestCommit_AnAcceptedCancelWinsOverTheEndThatWaitsForIt(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	err := y.whileItWaits(finishing(c, dagrun.RunSucceeded, taskAt(0, 1, dagrun.TaskSucceeded)), "SELECT oarlock.cancel($1)")
	if !errors.Is(err, ErrInboxMoved) {
		t.Errorf("got %v, want %v", err, ErrInboxMoved)
	}
	if got := y.tasks(c); len(got) > 0 || y.runState(c) != "running" {
		t.Errorf("tasks %v, run %s", got, y.runState(c))
	}
	if y.held.of(c) == nil {
		t.Error("the claim is not held any more")
	}
}

func TestCommit_AnApprovalIsNotMissedByTheParkThatWaitsForIt(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	b := parking(c, taskAt(0, 1, dagrun.TaskWaiting))
	if err := y.whileItWaits(b, "SELECT oarlock.approve($1, 'a')"); !errors.Is(err, ErrInboxMoved) {
		t.Errorf("got %v, want %v", err, ErrInboxMoved)
	}
	b.Seen = 1
	y.must(y.commit(t.Context(), b))
	if got := y.runState(c); got != "waiting" {
		t.Errorf("the run is %s", got)
	}
}

func TestCommit_AnEndSeesAnInboxThatMovedBackstageOnlyWhenItIsOver(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	client := y.begin()
	y.in(client, "SELECT oarlock.cancel($1)", c.Run)
	done := y.later(finishing(c, dagrun.RunSucceeded))
	y.blocked(client, appName(y.worker))
	y.must(client.Rollback(t.Context())) // the request is never committed
	y.must(y.outcome(done))
	if got := y.runState(c); got != "succeeded" {
		t.Errorf("the run is %s", got)
	}
}

// parkedParent is a parent that waits for a child, which runs.
func (y *journalBundle) parkedParent() (parent, child *Claim) {
	y.tb.Helper()
	parent = y.claim()
	y.must(y.commit(context.Background(), parking(parent, taskAt(0, 1, dagrun.TaskWaiting))))
	return parent, y.childOf(parent)
}

func TestCommit_ParentsAreToldOfAllTheirChildren(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	parent := y.claim()
	children := []*Claim{y.childOf(parent), y.childOf(parent), y.childOf(parent)}
	var done []<-chan error
	block := y.begin()
	y.in(block, "SELECT FROM oarlock.fences FOR NO KEY UPDATE")
	for _, c := range children {
		done = append(done, y.later(finishing(c, dagrun.RunSucceeded)))
	}
	y.blocked(block, appName(y.worker))
	y.end(block)
	for _, d := range done {
		y.must(y.outcome(d))
	}
	if got := get[int](y, "SELECT count(*) FROM oarlock.controls WHERE run_id = $1", parent.Run); got != 3 {
		t.Errorf("%d controls", got)
	}
	if got := get[int](y, "SELECT inbox FROM oarlock.runs WHERE run_id = $1", parent.Run); got != 3 {
		t.Errorf("inbox %d", got)
	}
}

func TestCommit_AParentAndItsChildGoInTwoFlushes(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(parent, child *Batch) []*Batch{
		"parent first": func(p, c *Batch) []*Batch { return []*Batch{p, c} },
		"child first":  func(p, c *Batch) []*Batch { return []*Batch{c, p} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newJournalBundle(t)
			parent, first := y.claim(), y.claim()
			child := y.childOf(parent)
			block := y.begin()
			y.in(block, "SELECT FROM oarlock.fences FOR NO KEY UPDATE")
			done := []<-chan error{y.later(batch(first, taskAt(0, 1, dagrun.TaskRunning)))}
			y.blocked(block, appName(y.worker))
			for i, b := range order(parking(parent, taskAt(0, 1, dagrun.TaskWaiting)), finishing(child, dagrun.RunSucceeded)) {
				done = append(done, y.later(b))
				y.eventually("it waits", func() bool { return len(y.queue) == i+1 })
			}
			y.end(block)
			for i, d := range done {
				if err := y.outcome(d); err != nil && !(i == 2 && errors.Is(err, ErrInboxMoved)) {
					t.Errorf("commit %d: %v", i, err)
				}
			}
			if got := get[int](y, "SELECT count(*) FROM oarlock.controls WHERE run_id = $1", parent.Run); got != 1 {
				t.Errorf("%d controls", got)
			}
			state := y.runState(parent)
			if want := map[string]string{"parent first": "queued", "child first": "running"}[name]; state != want {
				t.Errorf("the parent is %s, want %s", state, want)
			}
		})
	}
}

func TestCommit_AChildThatEndsWhileItsParentParksIsNeverLost(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	parent := y.claim()
	child := y.childOf(parent)
	other := y.begin() // parks the parent, as another worker's flush
	y.in(other, "UPDATE oarlock.runs SET state = 'waiting', claim_id = NULL, worker_id = NULL WHERE run_id = $1", parent.Run)
	done := y.later(finishing(child, dagrun.RunSucceeded))
	y.blocked(other, appName(y.worker))
	y.end(other)
	y.must(y.outcome(done))
	if got := y.list("SELECT state || ' ' || inbox FROM oarlock.runs WHERE run_id = $1", parent.Run); !slices.Equal(got, []string{"queued 1"}) {
		t.Errorf("the parent is %v", got)
	}
}

func TestCommit_TellsOwnerFollowersAndHungryWorkers(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	listener := y.db.Conn(t)
	channel := get[string](y, "SELECT channel FROM oarlock.workers")
	for _, c := range []string{channel, "follower"} {
		must(listener.Exec(t.Context(), "LISTEN "+pgx.Identifier{c}.Sanitize()))
	}
	parent := y.claim()
	child := y.childOf(parent)
	y.exec("INSERT INTO oarlock.followers (run_id, channel, until) VALUES ($1, 'follower', now() + interval '1 minute')", child.Run)
	y.exec("UPDATE oarlock.workers SET hungry = 1")
	drained := batch(child, taskAt(0, 1, dagrun.TaskRetrying))
	y.must(y.commit(t.Context(), drained))
	y.must(y.commit(t.Context(), finishing(child, dagrun.RunSucceeded)))
	y.must(y.release(t.Context(), parent, false, 0))
	var heard []string
	for range 4 {
		n := must(listener.WaitForNotification(t.Context()))
		heard = append(heard, n.Channel[:8]+" "+n.Payload[:4])
	}
	if want := []string{"follower run:", "follower run:", "oarlock_ run:", "oarlock_ lane"}; !slices.Equal(heard, want) {
		slices.Sort(heard)
		slices.Sort(want)
		if !slices.Equal(heard, want) {
			t.Errorf("heard %v, want %v", heard, want)
		}
	}
}

func TestCommit_LeavesAsItIsAskedTo(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	for name, c := range map[string]struct {
		before string
		rec    *dagrun.RunRecord
		leave  dagrun.Leave
		want   string
	}{
		"parked until":        {"running", &dagrun.RunRecord{State: dagrun.RunWaiting, WakeAt: 5000, Left: 7}, dagrun.Leave{WakeAt: 5000}, "waiting 5 7"},
		"parked, paused":      {"running", &dagrun.RunRecord{State: dagrun.RunPaused, PausedBy: "ana", WakeAt: 5000}, dagrun.Leave{WakeAt: 5000}, "paused 0"},
		"stays paused":        {"paused", nil, dagrun.Leave{}, "paused 0"},
		"parked, nothing new": {"running", nil, dagrun.Leave{WakeAt: 9000}, "waiting 9 0"},
		"drained":             {"running", &dagrun.RunRecord{State: dagrun.RunQueued}, dagrun.Leave{Drained: true}, "queued 0"},
		"drained, paused":     {"paused", nil, dagrun.Leave{Drained: true}, "queued 0"},
	} {
		claim := y.claim()
		y.exec("UPDATE oarlock.runs SET state = $2 WHERE run_id = $1", claim.Run, c.before)
		y.must(y.commit(t.Context(), &Batch{Claim: claim, Records: dagrun.Records{Run: c.rec}, Leave: &c.leave}))
		got := get[string](y, "SELECT concat_ws(' ', state, extract(epoch FROM wake_at)::int, left_ms, claim_id) FROM oarlock.runs WHERE run_id = $1", claim.Run)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestCommit_ASecondOneOfAClaimIsAnError(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	block := y.begin()
	y.in(block, "SELECT FROM oarlock.fences FOR NO KEY UPDATE")
	done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
	y.blocked(block, appName(y.worker))
	if err := y.commit(t.Context(), batch(c)); err == nil || errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	y.end(block)
	y.must(y.outcome(done))
}

func TestCommit_ARefusedRunEndsWithAllThatWasOpen(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	parent, c := y.parkedParent()
	y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskSucceeded), taskAt(1, 2, dagrun.TaskRunning))))
	y.exec("SELECT oarlock.pause($1)", c.Run)
	bad := taskAt(1, 3, dagrun.TaskFailed)
	bad.Reason = "\x00"
	s := &Session{journal: y.journal}
	err := s.Commit(t.Context(), finishing(c, dagrun.RunFailed, bad))
	if !errors.Is(err, ErrRefused) {
		t.Fatalf("got %v", err)
	}
	if got := y.tasks(c); !slices.Equal(got, []string{"0 succeeded 1", "1 canceled 2"}) {
		t.Errorf("tasks %v", got)
	}
	want := []string{"failed refused"}
	if got := y.list("SELECT state || ' ' || (SELECT outcome FROM oarlock.controls c WHERE c.run_id = r.run_id) FROM oarlock.runs r WHERE run_id = $1 AND claim_id IS NULL", c.Run); !slices.Equal(got, want) {
		t.Errorf("run and its control: %v, want %v", got, want)
	}
	if got := y.runState(parent); got != "queued" {
		t.Errorf("the parent is %s", got)
	}
	if got := y.list("SELECT kind FROM oarlock.events WHERE run_id = $1", c.Run); !slices.Equal(got, []string{"refused"}) {
		t.Errorf("events %v", got)
	}
	y.forfeited(c)
}

func TestFailRun_AnswersTheSameWhenAskedAgain(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c, fenceless := y.claim(), y.claim()
	const failRun = "SELECT oarlock.fail_run($1, $2, 1, 'internal: x')"
	for range 2 {
		if !get[bool](y, failRun, c.Run, c.ID) {
			t.Error("not done")
		}
	}
	y.exec("DELETE FROM oarlock.fences")
	if get[bool](y, failRun, fenceless.Run, fenceless.ID) || y.runState(fenceless) != "running" {
		t.Error("a run was failed by a worker without a fence")
	}
}
