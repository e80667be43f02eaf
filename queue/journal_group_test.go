package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func TestJournal_GathersWhatComesWhileAFlushIsInFlight(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	claims := y.claims(101)
	block := y.begin()
	y.in(block, "SELECT FROM oarlock.fences FOR NO KEY UPDATE")
	done := []<-chan error{y.later(batch(claims[0], taskAt(0, 1, dagrun.TaskRunning)))}
	y.blocked(block, appName(y.worker))
	for _, c := range claims[1:] {
		done = append(done, y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning))))
	}
	y.eventually("all wait", func() bool { return len(y.queue) == 100 })
	y.end(block)
	for _, d := range done {
		y.must(y.outcome(d))
	}
	if got := y.tries.Load(); got != 2 {
		t.Errorf("%d flushes for one commit and then a hundred, want 2", got)
	}
}

func TestJournal_KeepsItsBounds(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c, other := y.claim(), y.claim()
	var tasks []dagrun.TaskRecord
	for i := range 2500 {
		tasks = append(tasks, taskAt(i, int64(i+1), dagrun.TaskSucceeded))
	}
	b := finishing(c, dagrun.RunSucceeded, tasks...)
	b.Records.Attempts = []dagrun.AttemptRecord{{ID: dagrun.TaskID{Step: 2400}, Attempt: 1, State: dagrun.TaskFailed}, {ID: dagrun.TaskID{Step: 9000}, Attempt: 1, State: dagrun.TaskFailed}}
	e := newPendingCommit(b, y.held.of(c))
	parts := e.parts()
	for i, p := range parts {
		if rows := len(p.tasks) + len(p.attempts) + len(p.chunks); rows > flushRowsMax || p.last != (i == len(parts)-1) {
			t.Errorf("piece %d: %d rows, last %v", i, rows, p.last)
		}
	}
	y.must(y.commit(t.Context(), b))
	if got := y.tries.Load(); got != int64(len(parts)) || got != 3 {
		t.Errorf("%d flushes, %d pieces, want 3", got, len(parts))
	}
	if got := get[int](y, "SELECT count(*) FROM oarlock.tasks"); got != 2500 || y.runState(c) != "succeeded" {
		t.Errorf("%d tasks, run %s", got, y.runState(c))
	}
	big := taskAt(0, 1, dagrun.TaskSucceeded)
	big.Outputs = dagrun.JSON(fmt.Sprintf("%q", make([]byte, 0)))
	big.Reason = string(slices.Repeat([]byte("x"), flushBytesMax+1))
	y.must(y.commit(t.Context(), batch(other, big, taskAt(1, 2, dagrun.TaskRunning))))
	if got := y.tries.Load(); got != 5 {
		t.Errorf("%d flushes, want 5: a row larger than a flush goes alone", got)
	}
}

// A crash may follow any part. If an attempt were written in an earlier part than its task, the old row of the task would describe
// the same attempt again.
func TestEntry_KeepsAttemptsWithTheirTasks(t *testing.T) {
	t.Parallel()
	var rec dagrun.Records
	for i := range 2500 {
		task := taskAt(i, int64(i+1), dagrun.TaskPending)
		rec.Tasks = append(rec.Tasks, task)
		for attempt := range i % 3 {
			rec.Attempts = append(rec.Attempts, dagrun.AttemptRecord{ID: task.ID, Attempt: attempt + 1, State: dagrun.TaskFailed})
		}
	}
	attempts := 0
	for i, p := range newPendingCommit(&Batch{Records: rec}, &heldClaim{}).parts() {
		if rows := len(p.tasks) + len(p.attempts); rows > flushRowsMax {
			t.Errorf("piece %d has %d rows", i, rows)
		}
		for _, a := range p.attempts {
			if !slices.ContainsFunc(p.tasks, func(task dagrun.TaskRecord) bool { return task.ID == a.ID }) {
				t.Errorf("piece %d tells of attempt %d of task %d, but not of the task", i, a.Attempt, a.ID.Step)
			}
		}
		attempts += len(p.attempts)
	}
	if attempts != len(rec.Attempts) {
		t.Errorf("%d attempts, want %d", attempts, len(rec.Attempts))
	}
}

// model is what the rows of one run must hold. It is as simple as possible.
type model struct {
	claim *Claim
	seq   int64
	tasks map[int]string
	notes int
	run   string
}

// next makes a batch, and applies it to the model.
func (m *model) next(r *rand.Rand) *Batch {
	b := batch(m.claim)
	for range r.IntN(4) {
		m.seq++
		step, state := r.IntN(5), []dagrun.State{dagrun.TaskReady, dagrun.TaskRunning, dagrun.TaskRetrying, dagrun.TaskWaiting}[r.IntN(4)]
		if slices.ContainsFunc(b.Records.Tasks, func(t dagrun.TaskRecord) bool { return t.ID.Step == step }) {
			continue
		}
		b.Records.Tasks = append(b.Records.Tasks, taskAt(step, m.seq, state))
		m.tasks[step] = fmt.Sprint(step, " ", state, " ", m.seq)
	}
	for range r.IntN(2) {
		b.Records.Notes = append(b.Records.Notes, dagrun.Note{At: 1, Kind: "skip"})
		m.notes++
	}
	if r.IntN(3) == 0 {
		m.run = []string{"running", "paused"}[r.IntN(2)]
		state, _ := dagrun.ParseRunState(m.run)
		b.Records.Run = &dagrun.RunRecord{State: state}
	}
	return b
}

func (m *model) rows() []string {
	var rows []string
	for step := range 5 {
		if m.tasks[step] != "" {
			rows = append(rows, m.tasks[step])
		}
	}
	return append(rows, fmt.Sprint("notes ", m.notes), "run "+m.run)
}

func TestJournal_RowsAreWhatTheBatchesSay(t *testing.T) {
	t.Parallel()
	const runs, each = 50, 200 // 10,000 batches
	y := newJournalBundle(t)
	var drives sync.WaitGroup
	models := make([]*model, runs)
	for i, c := range y.claims(runs) {
		m := &model{claim: c, tasks: map[int]string{}, run: "running"}
		models[i] = m
		drives.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range each {
				if err := y.commit(t.Context(), m.next(r)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	drives.Wait()
	for _, m := range models {
		got := y.list(`SELECT t.line FROM (SELECT concat_ws(' ', step, state, seq) AS line FROM oarlock.tasks WHERE run_id = $1 ORDER BY step) t
			UNION ALL SELECT 'notes ' || count(DISTINCT seq) FROM oarlock.events WHERE run_id = $1
			UNION ALL SELECT 'run ' || state FROM oarlock.runs WHERE run_id = $1`, m.claim.Run)
		if want := m.rows(); !slices.Equal(got, want) {
			t.Errorf("run %d:\ngot  %v\nwant %v", m.claim.Run, got, want)
		}
	}
	if flushes := y.tries.Load(); flushes > runs*each/2 {
		t.Errorf("%d flushes for %d commits of %d drives: they do not gather", flushes, runs*each, runs)
	}
}
