package queue

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// If a follower registers before the run is claimed, the session learns of it from the commit that starts the first task.
func TestCommit_TellsWhoseLogIsFollowed(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	for _, c := range y.claims(3) {
		switch c.Run % 3 {
		case 1:
			y.exec("SELECT oarlock.follow($1, 'ann'), oarlock.follow($1, 'bob')", c.Run)
		case 2:
			y.exec("SELECT oarlock.follow($1, 'ann', logs => false)", c.Run)
		}
		y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
		if got, want := y.held.of(c).followed, c.Run%3 == 1; got != want {
			t.Errorf("run %d is followed: %v, want %v", c.Run, got, want)
		}
	}
}

func TestCommit_ABeginningIsStoredByTheClaimAlready(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	version := func() string {
		return y.list("SELECT concat_ws(' ', xmin, state, paused_by, extract(epoch FROM started_at)::int) FROM oarlock.runs WHERE run_id = $1", c.Run)[0]
	}
	y.exec("UPDATE oarlock.runs SET started_at = to_timestamp(1)")
	c.Row.StartedAt = 1000
	claimed := version()
	says := func(r dagrun.RunRecord) *Batch {
		b := batch(c)
		b.Records.Run = &r
		return b
	}
	running := dagrun.RunRecord{State: dagrun.RunRunning, StartedAt: 5000, Counts: dagrun.Counts{Total: 1, Open: 1}}
	y.must(y.commit(t.Context(), says(running)))
	if got := version(); got != claimed {
		t.Errorf("the row is %s, was %s", got, claimed)
	}
	paused := running
	paused.State, paused.PausedBy = dagrun.RunPaused, "ann"
	for want, r := range map[string]dagrun.RunRecord{"paused ann 1": paused, "running  1": running} {
		before := version()
		y.must(y.commit(t.Context(), says(paused)))
		y.must(y.commit(t.Context(), says(r)))
		if got := version(); got == before || !strings.HasSuffix(got, want) {
			t.Errorf("the row is %s, want %s", got, want)
		}
	}
}

func TestCommit_UnderAClaimThatIsGoneWritesNothing(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	plain, ends := y.claim(), y.claim()
	y.exec("UPDATE oarlock.runs SET claim_id = gen_random_uuid()")
	for _, b := range []*Batch{batch(plain, taskAt(0, 1, dagrun.TaskRunning)), finishing(ends, dagrun.RunFailed, taskAt(0, 1, dagrun.TaskFailed))} {
		if err := y.commit(t.Context(), b); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("got %v, want %v", err, ErrLeaseLost)
		}
		if got := y.tasks(b.Claim); len(got) > 0 || y.runState(b.Claim) != "running" {
			t.Errorf("tasks %v, run %s", got, y.runState(b.Claim))
		}
		y.forfeited(b.Claim)
	}
}

func TestCommit_WithoutTheFenceLosesTheSession(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	one, other := y.claim(), y.claim()
	y.exec("DELETE FROM oarlock.fences")
	if err := y.commit(t.Context(), finishing(one, dagrun.RunSucceeded)); !errors.Is(err, ErrLeaseLost) {
		t.Fatalf("got %v", err) // without this error nothing would end the session
	}
	y.forfeited(other)
	<-y.lost
	if got := y.runState(one); got != "running" {
		t.Errorf("the run is %s", got)
	}
}

func TestCommit_APoisonRecordEndsItsOwnRunOnly(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*dagrun.TaskRecord){
		"a NUL in an output": func(r *dagrun.TaskRecord) { r.Outputs = `{"x": "\u0000"}` },
		"a NUL in a reason":  func(r *dagrun.TaskRecord) { r.Reason = "\x00" },
		"bad UTF-8":          func(r *dagrun.TaskRecord) { r.Reason = "\xff" },
		"broken JSON":        func(r *dagrun.TaskRecord) { r.Outputs = `{` },
		"too large a number": func(r *dagrun.TaskRecord) { r.Retries = 1 << 40 },
		"too late a time":    func(r *dagrun.TaskRecord) { r.NextAt = 1 << 62 },
		"a CHECK":            func(r *dagrun.TaskRecord) { r.ID.Alt = 11 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newJournalBundle(t)
			claims := y.claims(5)
			block := y.begin() // so that they gather
			y.in(block, "SELECT FROM oarlock.fences FOR NO KEY UPDATE")
			done := []<-chan error{y.later(batch(claims[4], taskAt(1, 1, dagrun.TaskRunning)))}
			y.blocked(block, appName(y.worker))
			for i, c := range claims[:4] {
				task := taskAt(0, 2, dagrun.TaskRunning)
				if i == 2 {
					spoil(&task)
				}
				done = append(done, y.later(batch(c, taskAt(1, 1, dagrun.TaskRunning), task)))
			}
			y.eventually("all wait", func() bool { return len(y.queue) == 4 })
			y.end(block)
			for i, d := range done {
				if err := y.outcome(d); (i == 3) != (err != nil) || err != nil && !errors.Is(err, ErrRefused) {
					t.Errorf("commit %d: %v", i, err)
				}
			}
			if got := y.list("SELECT state || ' ' || (SELECT count(*) FROM oarlock.tasks t WHERE t.run_id = r.run_id) FROM oarlock.runs r ORDER BY run_id"); !slices.Equal(got, []string{"running 2", "running 2", "failed 0", "running 2", "running 1"}) {
				t.Errorf("runs and their tasks: %v", got)
			}
			if got := y.list("SELECT reason FROM oarlock.runs WHERE run_id = $1 AND claim_id IS NULL", claims[2].Run); len(got) != 1 || got[0][:10] != "internal: " {
				t.Errorf("reason %v", got)
			}
			y.forfeited(claims[2])
		})
	}
}
