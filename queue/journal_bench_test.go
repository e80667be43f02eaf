package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// The bare loop that the journal is measured against: claims by id, the fence, an upsert of what a chain needs, the end
// of the run. No engine, no refusals, no inbox, no attempts, notes, controls or logs.
const bareFlush = `WITH fence AS MATERIALIZED (SELECT 1 FROM oarlock.fences WHERE worker_id = $1 AND channel = 'commit' FOR NO KEY UPDATE),
ended AS (UPDATE oarlock.runs r SET state = 'succeeded', claim_id = NULL, worker_id = NULL, finished_at = clock_timestamp()
	FROM unnest($7::bigint[], $8::uuid[]) u (run_id, claim_id)
	WHERE r.run_id = u.run_id AND r.claim_id = u.claim_id AND (SELECT count(*) FROM fence) = 1)
INSERT INTO oarlock.tasks AS t (run_id, step, state, attempt, generation, epoch, seq)
SELECT u.run_id, u.step, u.state, 1, 1, 1, u.seq FROM unnest($2::bigint[], $3::uuid[], $4::int[], $5::text[], $6::bigint[]) u (run_id, claim_id, step, state, seq)
	JOIN oarlock.runs r ON r.run_id = u.run_id AND r.claim_id = u.claim_id WHERE (SELECT count(*) FROM fence) = 1
ON CONFLICT (run_id, step, item, alt) DO UPDATE SET state = excluded.state, seq = excluded.seq WHERE (t.epoch, t.seq) < (excluded.epoch, excluded.seq)`

// bareRow is a task's record in the bare loop; over ends the run with it.
type bareRow struct {
	claim *Claim
	task  dagrun.TaskRecord
	over  bool
}

func (y *yard) bare(conn *pgx.Conn, rows []bareRow) {
	runs, steps, seqs := make([]int64, len(rows)), make([]int32, len(rows)), make([]int64, len(rows))
	claims, states := make([]uuid.UUID, len(rows)), make([]string, len(rows))
	over, overClaims := []int64{}, []uuid.UUID{}
	for i, r := range rows {
		runs[i], claims[i], steps[i], states[i], seqs[i] = int64(r.claim.Run), r.claim.ID, int32(r.task.ID.Step), r.task.State.String(), r.task.Seq
		if r.over {
			over, overClaims = append(over, int64(r.claim.Run)), append(overClaims, r.claim.ID)
		}
	}
	_, err := conn.Exec(context.Background(), bareFlush, y.worker, runs, claims, steps, states, seqs, over, overClaims)
	y.must(err)
}

// BenchmarkFlush is one flush of n records of n runs, beside the bare statement for the same.
func BenchmarkFlush(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			y := newYard(b)
			conn := y.own()
			claims := y.claims(n)
			pieces, rows := make([]*piece, n), make([]bareRow, n)
			var journal, bare time.Duration
			seq := int64(0)
			for b.Loop() {
				seq += 2
				for i, c := range claims {
					pieces[i] = newEntry(batch(c, taskAt(0, seq, dagrun.TaskRunning)), y.held.of(c)).whole()
					rows[i] = bareRow{claim: c, task: taskAt(1, seq, dagrun.TaskRunning)}
				}
				start := time.Now()
				y.must(y.journal.prepare(b.Context(), conn))
				y.flush.fill(pieces)
				must(y.journal.exec(b.Context(), conn))
				journal += time.Since(start)
				start = time.Now()
				y.bare(conn, rows)
				bare += time.Since(start)
			}
			report(b, n*b.N, journal, bare)
		})
	}
}

func report(b *testing.B, records int, journal, bare time.Duration) {
	b.ReportMetric(float64(journal.Microseconds())/float64(records), "journal-us/record")
	b.ReportMetric(float64(bare.Microseconds())/float64(records), "bare-us/record")
	b.ReportMetric(float64(bare)/float64(journal), "of-bare")
}

const (
	chainRuns  = 2000
	chainSteps = 10
)

// BenchmarkChains drives chains of ten steps with a start and an end record per step, whose bodies end at once: through
// core and journal, and through the bare loop. A dependant starts only after its commit.
func BenchmarkChains(b *testing.B) {
	var spec dagrun.Spec
	for i := range chainSteps {
		step := dagrun.Step{Name: fmt.Sprintf("s%d", i)}
		if i > 0 {
			step.Depends = []dagrun.Edge{{Step: fmt.Sprintf("s%d", i-1)}}
		}
		spec.Steps = append(spec.Steps, step)
	}
	graph, err := dagrun.Compile(spec)
	if err != nil {
		b.Fatal(err)
	}
	for _, runs := range []int{1, chainRuns} {
		b.Run(fmt.Sprint(runs), func(b *testing.B) {
			y := newYard(b)
			var journal, bare time.Duration
			for b.Loop() {
				claims, bareClaims := y.claims(runs), y.claims(runs)
				start := time.Now()
				y.driveAll(graph, claims)
				journal += time.Since(start)
				start = time.Now()
				y.bareChains(bareClaims)
				bare += time.Since(start)
			}
			report(b, runs*chainSteps*b.N, journal, bare)
			b.ReportMetric(float64(runs*chainSteps*b.N)/journal.Seconds(), "steps/s")
		})
	}
}

func (y *yard) driveAll(graph *dagrun.Graph, claims []*Claim) {
	done := make(chan error, len(claims))
	for _, c := range claims {
		go func() { done <- y.drive(graph, c) }()
	}
	for range claims {
		y.must(<-done)
	}
}

// drive is the loop of package dagrun's documentation; each start and each end of a step has a commit of its own.
func (y *yard) drive(graph *dagrun.Graph, c *Claim) error {
	run := dagrun.New(graph, dagrun.Options{})
	var now dagrun.Time = 1000
	step := func(e dagrun.Event) error {
		now++
		e.At = now
		return run.Step(e)
	}
	if err := step(dagrun.Event{Kind: dagrun.EvBegin}); err != nil {
		return err
	}
	var bodies []dagrun.Action
	for !run.Over() {
		ready, ok := run.Ready()
		for _, w := range ready.Wants {
			if err := step(dagrun.Event{Kind: dagrun.EvGranted, Task: w.Task}); err != nil {
				return err
			}
		}
		if len(ready.Wants) > 0 {
			ready, ok = run.Ready()
		}
		if ok {
			if err := y.commit(context.Background(), &Batch{Claim: c, Records: ready.Records, Leave: ready.Leave, Result: ready.Result}); err != nil {
				return err
			}
			bodies = append(bodies[:0], ready.Actions...)
			run.Advance()
		}
		for _, a := range bodies {
			if err := step(dagrun.Event{Kind: dagrun.EvFinished, Task: a.Task, Attempt: a.Attempt, Result: &dagrun.Result{}}); err != nil {
				return err
			}
		}
		bodies = bodies[:0]
	}
	return nil
}

// bareChains does the same with a goroutine per run, one that writes, and nothing between them but channels.
func (y *yard) bareChains(claims []*Claim) {
	type commit struct {
		rows []bareRow
		done chan struct{}
	}
	queue, ended := make(chan commit, journalQueue), make(chan struct{}, len(claims))
	for _, c := range claims {
		go func() {
			done := make(chan struct{}, 1)
			for i := range chainSteps + 1 {
				var rows []bareRow
				if i > 0 {
					rows = append(rows, bareRow{claim: c, task: taskAt(i-1, int64(2*i+1), dagrun.TaskSucceeded), over: i == chainSteps})
				}
				if i < chainSteps {
					rows = append(rows, bareRow{claim: c, task: taskAt(i, int64(2*i+2), dagrun.TaskRunning)})
				}
				queue <- commit{rows, done}
				<-done
			}
			ended <- struct{}{}
		}()
	}
	conn := y.own()
	var rows []bareRow
	var waiting []chan struct{}
	for left := len(claims); left > 0; {
		select {
		case c := <-queue:
			rows, waiting = append(rows, c.rows...), append(waiting, c.done)
			if len(rows) < flushRowsMax-1 && len(queue) > 0 {
				continue
			}
		case <-ended:
			left--
			continue
		}
		y.bare(conn, rows)
		for _, w := range waiting {
			w <- struct{}{}
		}
		rows, waiting = rows[:0], waiting[:0]
	}
}
