package storetest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// clock is a clock that only the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func put(tb testing.TB, m *storetest.Memory, source string) {
	tb.Helper()
	spec, err := dagspec.Parse("test.yaml", []byte(source))
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := m.PutDAG(tb.Context(), spec, source, "test.yaml"); err != nil {
		tb.Fatal(err)
	}
}

const diamond = `
name: diamond
steps:
  - {id: a, run: "true"}
  - {id: b, run: "true", depends: [a]}
  - {id: c, run: "true", depends: [a]}
  - {id: d, run: "true", depends: [b, c]}
`

var anyWorker = queue.Worker{Name: "w", Slots: 8, Offers: []string{"process"}}

func TestMemory_DrivesADiamond(t *testing.T) {
	t.Parallel()
	clock := newClock()
	m := storetest.NewMemory(storetest.Options{Now: clock.Now})
	put(t, m, diamond)
	s, err := m.Register(t.Context(), anyWorker)
	if err != nil {
		t.Fatal(err)
	}
	id, err := m.Enqueue(t.Context(), queue.Request{DAG: "diamond"})
	if err != nil {
		t.Fatal(err)
	}
	polled, err := s.Poll(t.Context(), queue.Want{Slots: 4, Free: 4})
	if err != nil || len(polled.Claims) != 1 {
		t.Fatalf("polled %+v, %v", polled, err)
	}
	driven, err := storetest.Drive(t.Context(), s.Roles(), polled.Claims[0], storetest.Behaviour{})
	if err != nil || driven.Verdict == nil || driven.Verdict.State != dagrun.RunSucceeded {
		t.Fatalf("driven %+v, %v", driven, err)
	}
	clock.advance(time.Second)
	if r, err := m.Get(t.Context(), id); err != nil || r.State != "succeeded" || r.Counts.Succeeded != 4 {
		t.Errorf("run %+v, %v", r, err)
	}
}

// BenchmarkMemory_Commit measures a commit of two task records, like the end of one task and the start of the next.
func BenchmarkMemory_Commit(b *testing.B) {
	m := storetest.NewMemory(storetest.Options{})
	put(b, m, diamond)
	ctx := context.Background()
	s, err := m.Register(ctx, anyWorker)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := m.Enqueue(ctx, queue.Request{DAG: "diamond"}); err != nil {
		b.Fatal(err)
	}
	polled, err := s.Poll(ctx, queue.Want{Slots: 1, Free: 1})
	if err != nil {
		b.Fatal(err)
	}
	batch := queue.Batch{Claim: polled.Claims[0], Records: dagrun.Records{Tasks: make([]dagrun.TaskRecord, 2)}}
	seq := int64(0)
	for b.Loop() {
		for i := range batch.Records.Tasks {
			seq++
			batch.Records.Tasks[i] = dagrun.TaskRecord{ID: dagrun.TaskID{Step: i}, Seq: seq, State: dagrun.TaskRunning, Attempt: 1, AttemptAt: 1, Generation: 1}
		}
		if err := s.Commit(ctx, &batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}
