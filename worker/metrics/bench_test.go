package metrics_test

import (
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/metrics"
)

// events are the frequent events.
func events(s *metrics.Set) map[string]func() {
	flushed, looked, permitted, try := s.Queue().Flushed, s.Queue().Looked, s.Queue().Permitted, queue.FlushTry{Batches: 10, Records: 30, Bytes: 9000, Took: time.Millisecond}
	poll := worker.PollEnd{Wanted: 8, Got: queue.Polled{Claims: make([]*queue.Claim, 8)}, Took: time.Millisecond}
	return map[string]func(){
		"RunStarted":  func() { s.RunStarted("d", time.Second) },
		"RunLeft":     func() { s.RunLeft("d", "succeeded", time.Second) },
		"TaskSettled": func() { s.TaskSettled("d", dagrun.TaskSucceeded) },
		"AttemptEnded": func() {
			s.AttemptEnded(worker.AttemptEnd{DAG: "d", Body: "run", Outcome: "succeeded", Took: time.Second})
		},
		"Flushed":   func() { flushed(try) },
		"Polled":    func() { s.Polled(poll) },
		"Looked":    func() { looked(nil) },
		"Permitted": func() { permitted(time.Millisecond, nil) },
		"Renewed":   func() { s.Renewed(time.Second, time.Millisecond, nil) },
	}
}

// Counting happens where every microsecond matters, so it must not allocate.
func TestSet_CountsWithoutAllocating(t *testing.T) {
	for _, perDAG := range []bool{false, true} {
		for name, event := range events(newSet(t, metrics.Config{PerDAG: perDAG})) {
			event()
			if n := testing.AllocsPerRun(100, event); n > 0 {
				t.Errorf("%s, by DAG %t: %v allocations", name, perDAG, n)
			}
		}
	}
}

func BenchmarkSet(b *testing.B) {
	s, err := metrics.New(metrics.Config{PerDAG: true})
	if err != nil {
		b.Fatal(err)
	}
	for name, event := range events(s) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				event()
			}
		})
	}
}
