package dagrun

import (
	"strings"
	"testing"
)

// What the steps of a run put out together is bounded, also over crashes; items do not count.
func TestOutputs_OfARunAreBounded(t *testing.T) {
	t.Parallel()
	output := func(bytes int) []Result {
		return []Result{{Outputs: JSON(strings.Repeat("x", bytes))}}
	}
	d := newDrive(t, spec("a", "b <- a", "each each=x,y <- b", "c <- each", "d approval <- a"), Options{})
	d.ends = map[string][]Result{
		"a": output(maxRunOutputs / 2), "b": output(maxRunOutputs / 2), "each/x": output(maxRunOutputs), "c": output(1),
	}
	d.begin()
	c, _ := d.run.Task(d.id("c"))
	if c.State != TaskFailed || c.Kind != KindOutput {
		t.Errorf("one byte too many: %s, %s %q", c.State, c.Kind, c.Reason)
	}
	d.crash()
	if d.run.bytes != maxRunOutputs {
		t.Errorf("restored, %d bytes, should be %d", d.run.bytes, maxRunOutputs)
	}
}
