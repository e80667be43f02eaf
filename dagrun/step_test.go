package dagrun

import (
	"errors"
	"fmt"
	"testing"
)

func TestStep_StaleEventsChangeNothing(t *testing.T) {
	t.Parallel()
	r := begun(t, spec("a", "b approval"), Event{Kind: EvGranted})
	before := fmt.Sprint(r.Ready())
	for _, e := range []Event{
		{Kind: EvGranted},
		{Kind: EvFinished, Attempt: 2, Result: &Result{}},
		{Kind: EvLost, Attempt: 0},
		{Kind: EvProbed},
		{Kind: EvStarted, Attempt: 7},
		{Kind: EvWaits, Attempt: 1},
		{Kind: EvFinished, Task: TaskID{Step: 1}, Attempt: 2, Result: &Result{}},
		{Kind: EvGranted, Task: TaskID{Step: 9}},
		{Kind: EvGranted, Task: TaskID{Item: "x"}},
	} {
		e.At = 1_000_000
		if err := r.Step(e); !errors.Is(err, ErrStale) {
			t.Errorf("%s: %v", e.Kind, err)
		}
	}
	for _, e := range []Event{
		{Kind: EvBegin},
		{Kind: EvSettled},
		{Kind: EvDriveLimit},
		{Kind: EvControl},
		{Kind: EventKind(99)},
		{Kind: EvFinished, Attempt: 1},
	} {
		if err := r.Step(e); !errors.Is(err, ErrEvent) {
			t.Errorf("%s: %v", e.Kind, err)
		}
	}
	if after := fmt.Sprint(r.Ready()); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
}

func TestAdvance_WithoutReadyLosesNothing(t *testing.T) {
	t.Parallel()
	r := begun(t, spec("a"))
	r.Ready()
	must(0, r.Step(Event{Kind: EvGranted, At: 1}))
	r.Advance() // Ready has not shown the grant
	ready, _ := r.Ready()
	if len(ready.Records.Tasks) != 1 || len(ready.Actions) != 1 || ready.Records.Run == nil {
		t.Errorf("%+v", ready)
	}
}
