package dagrun

import (
	"fmt"
	"testing"
)

func chain(n int) Spec {
	s := Spec{Steps: make([]Step, n)}
	for i := range s.Steps {
		s.Steps[i].Name = fmt.Sprintf("s%d", i)
		if i > 0 {
			s.Steps[i].Depends = []Edge{{Step: s.Steps[i-1].Name}}
		}
	}
	return s
}

// fan is one step, many steps that depend on it, and one step that depends on all of these.
func fan(n int) Spec {
	s := chain(n)
	last := &s.Steps[n-1]
	last.Depends = nil
	for i := 1; i < n-1; i++ {
		s.Steps[i].Depends = []Edge{{Step: "s0"}}
		last.Depends = append(last.Depends, Edge{Step: s.Steps[i].Name})
	}
	return s
}

// ladder is rows of 100, each step of which depends on two of the row above.
func ladder(n int) Spec {
	s := chain(n)
	for i := range s.Steps {
		s.Steps[i].Depends = nil
		if i >= 100 {
			left, right := i-100, i-i%100-100+(i+1)%100
			s.Steps[i].Depends = []Edge{{Step: s.Steps[left].Name}, {Step: s.Steps[right].Name}}
		}
	}
	return s
}

// swift runs a run to its end with bodies that succeed at once.
func swift(tb testing.TB, r *Run) {
	settle(tb, r, func(Action) Result { return Result{} }, func(Records) {})
}

// settle runs a run until it ends or parks. end returns how each body ends, and store gets the records.
func settle(tb testing.TB, r *Run, end func(Action) Result, store func(Records)) {
	tb.Helper()
	step := func(e Event) {
		if err := r.Step(e); err != nil {
			tb.Fatal(err)
		}
	}
	var flying []Action
	step(Event{Kind: EvBegin, At: 1})
	for !r.Over() {
		ready, _ := r.Ready()
		for _, w := range ready.Wants {
			step(Event{Kind: EvGranted, At: 1, Task: w.Task})
		}
		if len(ready.Wants) > 0 {
			ready, _ = r.Ready()
		}
		flying = append(flying[:0], ready.Actions...)
		store(ready.Records)
		r.Advance()
		for _, a := range flying {
			res := end(a)
			step(Event{Kind: EvFinished, At: 1, Task: a.Task, Attempt: a.Attempt, Result: &res})
		}
	}
}

var shapes = []struct {
	name string
	make func(n int) Spec
}{{"chain", chain}, {"fan", fan}, {"ladder", ladder}}

func BenchmarkRun(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				s := shape.make(n)
				b.ReportAllocs()
				for b.Loop() {
					g, err := Compile(s)
					if err != nil {
						b.Fatal(err)
					}
					swift(b, New(g, Options{}))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/task")
			})
		}
	}
}

// BenchmarkCascade fails the first of many tasks that all depend on it.
func BenchmarkCascade(b *testing.B) {
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			g, err := Compile(shape.make(100_000))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				fails(b, New(g, Options{}))
			}
		})
	}
}

// BenchmarkRestore takes a run up of which half is done.
func BenchmarkRestore(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g, err := Compile(ladder(n))
			if err != nil {
				b.Fatal(err)
			}
			s := Saved{Run: RunRecord{State: RunRunning, Generation: 1, StartedAt: 1}}
			for i := range n / 2 {
				s.Tasks = append(s.Tasks, TaskRecord{ID: TaskID{Step: i}, Generation: 1, State: TaskSucceeded, Attempt: 1})
			}
			b.ReportAllocs()
			for b.Loop() {
				r, err := Restore(g, Options{}, s)
				if err != nil {
					b.Fatal(err)
				}
				if err := r.Step(Event{Kind: EvBegin, At: 2}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/task")
		})
	}
}

func BenchmarkForeach(b *testing.B) {
	for _, n := range []int{1_000, 90_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g, err := Compile(foreachSpec(n))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				swift(b, New(g, Options{}))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/task")
		})
	}
}
