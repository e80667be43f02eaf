package dagrun

import (
	"strings"
	"testing"
)

// The outputs of all steps of a run together are limited, also after a restore. Items do not count.
func TestOutputs_OfARunAreBounded(t *testing.T) {
	t.Parallel()
	output := func(bytes int) Result { return Result{Outputs: JSON(strings.Repeat("x", bytes))} }
	g := must(Compile(spec("a", "b <- a", "each each=x+y <- b", "c <- each", "d approval <- a")))
	r := New(g, Options{})
	saved := finish(t, r, map[string]Result{
		"a": output(MaxRunOutputs / 2), "b": output(MaxRunOutputs / 2), "each/x": output(MaxRunOutputs), "c": output(1),
	})
	if c := stateOf(r, "c"); c.State != TaskFailed || c.Kind != KindOutput {
		t.Errorf("one byte too many: %s, %s %q", c.State, c.Kind, c.Reason)
	}
	if restored := must(Restore(g, Options{}, saved)); restored.bytes != MaxRunOutputs {
		t.Errorf("restored, %d bytes, should be %d", restored.bytes, MaxRunOutputs)
	}
}

// A result that was committed together with its outputs succeeds, even if other steps have used up the limit meanwhile.
func TestOutputs_SettledOnesAreNeverTooMany(t *testing.T) {
	t.Parallel()
	r := New(must(Compile(spec("a", "b <- a"))), Options{})
	finish(t, r, map[string]Result{
		"a": {Outputs: JSON(strings.Repeat("x", MaxRunOutputs))}, "b": {Outputs: "x", Settled: true},
	})
	b := stateOf(r, "b")
	if b.State != TaskSucceeded || b.Outputs != "x" {
		t.Errorf("b is %s, %s %q", b.State, b.Kind, b.Reason)
	}
	if got := r.OutputBytes(b.ID); got != MaxRunOutputs {
		t.Errorf("besides b there are %d bytes", got)
	}
}
