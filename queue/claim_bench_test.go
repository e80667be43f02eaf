package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// bareClaim is a claim without fence, lanes, limits, cursors and the other duties of a poll.
const bareClaim = `
	WITH picked AS MATERIALIZED (
	    SELECT r.run_id FROM oarlock.runs r WHERE r.lane_id = $1 AND r.state = 'queued' AND r.run_at <= statement_timestamp()
	     ORDER BY r.run_at, r.run_id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
	)
	UPDATE oarlock.runs r SET state = 'running', claim_id = p.claim_id, worker_id = $3, epoch = r.epoch + 1
	  FROM unnest(ARRAY(SELECT run_id FROM picked), $4::uuid[]) p (run_id, claim_id) WHERE r.run_id = p.run_id
	RETURNING r.run_id, r.claim_id, r.epoch, r.params, r.labels, r.run_at, r.created_at`

// benchRuns bounds the runs of one measurement: entering more takes longer than claiming them.
const benchRuns = 20_000

// BenchmarkPoll claims batches, and right after each batch the same number of runs by the bare statement. Only their ratio is
// meaningful.
func BenchmarkPoll(b *testing.B) {
	for _, batch := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			f := newSessionBundle(b)
			s := f.register(b)
			other := f.register(b, func(w *queue.Worker) { w.TTL = time.Hour })                                    // it has fences, so no other worker takes its runs away
			f.put(b, "name: bare\nqueue: bare\nworker_selector: {bare: \"1\"}\nsteps: [{id: a, run: \"true\"}]\n") // not for the session
			lane := value[int](b, f.clientBundle, "SELECT lane_id FROM oarlock.lanes WHERE queue = 'bare'")
			poll(b, s, 0)
			var ours, bare time.Duration
			rounds, left := 0, 0
			for b.Loop() {
				if left < batch {
					b.StopTimer()
					left = max(batch, benchRuns)
					f.ask(b, "plain", left)
					f.ask(b, "bare", left)
					f.exec(b, "VACUUM ANALYZE oarlock.runs")
					b.StartTimer()
				}
				start := time.Now()
				if n := len(poll(b, s, batch).Claims); n != batch {
					b.Fatalf("claimed %d", n)
				}
				ours += time.Since(start)
				start = time.Now()
				f.claimBare(b, other.ID(), lane, batch)
				bare += time.Since(start)
				left -= batch
				rounds++
			}
			b.ReportMetric(float64(rounds*batch)/ours.Seconds(), "claims/s")
			b.ReportMetric(float64(rounds*batch)/bare.Seconds(), "bare/s")
			b.ReportMetric(bare.Seconds()/ours.Seconds(), "of-bare")
		})
	}
}

func (f *sessionBundle) claimBare(b *testing.B, worker uuid.UUID, lane, n int) {
	b.Helper()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	rows, err := f.conn.Query(b.Context(), bareClaim, lane, n, worker, ids)
	if err != nil {
		b.Fatal(err)
	}
	claimed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[bareRow])
	if err != nil || len(claimed) != n {
		b.Fatal(len(claimed), err)
	}
}

type bareRow struct {
	Run            int64
	ID             uuid.UUID
	Epoch          int
	Params, Labels []byte
	RunAt, Created time.Time
}
