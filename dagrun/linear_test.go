package dagrun

import (
	"fmt"
	"testing"
)

// foreachSpec makes one foreach step of n items, ten at a time, and one step that depends on it.
func foreachSpec(n int) Spec {
	it := make(items, n)
	for i := range it {
		it[i].Key = fmt.Sprintf("k%d", i)
	}
	s := spec("scan", "report <- scan")
	s.Steps[0].Foreach = &Foreach{Items: it, MaxConcurrent: 10}
	s.MaxActive = 7
	return s
}

// fails fails the first body, which blocks all steps that depend on it.
func fails(tb testing.TB, r *Run) {
	step := func(e Event) {
		e.At = 1
		if err := r.Step(e); err != nil {
			tb.Fatal(err)
		}
	}
	step(Event{Kind: EvBegin})
	step(Event{Kind: EvGranted})
	step(Event{Kind: EvFinished, Attempt: 1, Result: &Result{Kind: KindExit, ExitCode: 1, HasExit: true}})
}

func cancels(tb testing.TB, r *Run) {
	for _, e := range []Event{{Kind: EvBegin, At: 1}, {Kind: EvControl, At: 1, Control: &Control{ID: 1, Task: &TaskID{}}}} {
		if err := r.Step(e); err != nil {
			tb.Fatal(err)
		}
	}
}

// The work of a run grows no faster than its tasks and edges. The test counts the elementary moves of the core, not time.
func TestRun_WorkIsLinear(t *testing.T) {
	t.Parallel()
	ran := func(tb testing.TB, r *Run) { swift(tb, r) }
	for _, c := range []struct {
		name string
		make func(n int) Spec
		what func(testing.TB, *Run)
	}{
		{"chain", chain, ran},
		{"fan", fan, ran},
		{"ladder", ladder, ran},
		{"foreach", foreachSpec, ran},
		{"chain fails", chain, fails},
		{"fan fails", fan, fails},
		{"ladder fails", ladder, fails},
		{"chain canceled", chain, cancels},
		{"fan canceled", fan, cancels},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			effort := func(n int) float64 {
				g, err := Compile(c.make(n))
				if err != nil {
					t.Fatal(err)
				}
				r := New(g, Options{})
				c.what(t, r)
				return float64(r.effort) / float64(n)
			}
			small, large := effort(1_000), effort(20_000)
			if large > 1.1*small {
				t.Errorf("%.2f moves a task of 1,000, %.2f of 20,000", small, large)
			}
			t.Logf("%.2f moves a task", large)
		})
	}
}

// A transition allocates little: the core reuses the buffers that it hands out.
func TestRun_AllocatesLittle(t *testing.T) {
	g, err := Compile(chain(1_000))
	if err != nil {
		t.Fatal(err)
	}
	const transitions = 2 * 1_000 // each task starts and ends
	allocs := testing.AllocsPerRun(5, func() { swift(t, New(g, Options{})) })
	if per := allocs / transitions; per > 3 {
		t.Errorf("%.1f allocations a transition", per)
	}
}
