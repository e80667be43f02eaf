package dagrun

import "testing"

func TestRetryPolicy_DelayGrowsUpToItsCap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy RetryPolicy
		want   []Duration
	}{
		{RetryPolicy{Interval: 100, Backoff: 2}, []Duration{100, 200, 400, 800}},
		{RetryPolicy{Interval: 100, Backoff: 2, MaxInterval: 300}, []Duration{100, 200, 300, 300}},
		{RetryPolicy{Interval: 100}, []Duration{100, 100}},
		{RetryPolicy{Interval: 100, Backoff: 0.5}, []Duration{100, 100}},
		{RetryPolicy{Backoff: 9}, []Duration{0, 0}},
	} {
		for retries, want := range c.want {
			if got := c.policy.delay(retries); got != want {
				t.Errorf("%+v after %d retries: %s, want %s", c.policy, retries, got, want)
			}
		}
	}
	endless := RetryPolicy{Interval: 1000, Backoff: 1000}
	if got := endless.delay(1_000_000); got != forever {
		t.Errorf("the delay is not bounded: %s", got)
	}
}

func TestRetryPolicy_JitterStaysInItsBounds(t *testing.T) {
	t.Parallel()
	p := RetryPolicy{Jitter: 0.2}
	low, high := Duration(1000), Duration(1000)
	for attempt := range 10_000 {
		d := p.jitter(1000, hash(7, "a", attempt))
		low, high = min(low, d), max(high, d)
	}
	if low < 800 || low > 805 || high > 1200 || high < 1195 {
		t.Errorf("from %s to %s", low, high)
	}
	if p.Jitter = 0; p.jitter(1000, hash(7, "a", 1)) != 1000 {
		t.Error("a delay without jitter moves")
	}
}

// A restored run relies on these numbers: they must not change from one version to the next.
func TestHash_IsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	if a, b := hash(1, "load", 1), hash(1, "load", 2); a == b || a != hash(1, "load", 1) || a == hash(2, "load", 1) {
		t.Error(a, b)
	}
	p := RetryPolicy{Jitter: 0.5}
	if got := p.jitter(10_000, hash(1, "load", 1)); got != 9844 {
		t.Error(int64(got))
	}
}

func TestRetryPolicy_PicksFailures(t *testing.T) {
	t.Parallel()
	exit := func(code int) Result { return Result{Kind: KindExit, HasExit: true, ExitCode: code} }
	for _, c := range []struct {
		name   string
		policy RetryPolicy
		res    Result
		used   int
		want   bool
	}{
		{"within the limit", RetryPolicy{Limit: 2}, exit(1), 1, true},
		{"past the limit", RetryPolicy{Limit: 2}, exit(1), 2, false},
		{"permanent", RetryPolicy{Limit: 2}, Result{Kind: KindExit, Permanent: true}, 0, false},
		{"a listed code", RetryPolicy{Limit: 2, ExitCodes: []int{4}}, exit(4), 0, true},
		{"another code", RetryPolicy{Limit: 2, ExitCodes: []int{4}}, exit(5), 0, false},
		{"codes are for exits", RetryPolicy{Limit: 2, ExitCodes: []int{4}}, Result{Kind: KindTimeout, HasExit: true, ExitCode: 124}, 0, true},
		{"lost by default", RetryPolicy{Limit: 2}, Result{Kind: KindLost}, 0, false},
		{"lost when listed", RetryPolicy{Limit: 2, Kinds: []FailureKind{KindLost}}, Result{Kind: KindLost}, 0, true},
		{"an empty list", RetryPolicy{Limit: 2, Kinds: []FailureKind{}}, exit(1), 0, false},
	} {
		if got := c.policy.allows(c.res, c.used); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A run that was canceled, or gave up, before it started has no rows. All its steps are to do.
func TestRetryRun_StartsWhatNeverStarted(t *testing.T) {
	t.Parallel()
	g := must(Compile(spec("a", "b")))
	ended := TaskRecord{State: TaskSucceeded, Generation: 1, Attempt: 1}
	second := ended
	second.ID.Step = 1
	for _, c := range []struct {
		rows []TaskRecord
		want Outcome
	}{{nil, Applied}, {[]TaskRecord{ended}, Applied}, {[]TaskRecord{ended, second}, Refused}} {
		r := must(Restore(g, Options{Generation: 2}, Saved{Run: RunRecord{Generation: 2}, Tasks: c.rows}))
		if err := r.Step(Event{Kind: EvControl, Control: &Control{ID: 1, Verb: VerbRetry, Generation: 2, Mode: RetryFailed}}); err != nil {
			t.Fatal(err)
		}
		ready, _ := r.Ready()
		if got := ready.Records.Controls[0].Outcome; got != c.want {
			t.Errorf("with %d rows: %s, want %s", len(c.rows), got, c.want)
		}
	}
}

func TestDuration_PrintsForPeople(t *testing.T) {
	t.Parallel()
	for d, want := range map[Duration]string{0: "0s", 500: "500ms", 600_000: "10m", 3_600_000: "1h", 5_400_000: "1h30m", 129_600_000: "1d12h", 1500: "1s500ms"} {
		if d.String() != want {
			t.Errorf("%d prints %s, want %s", int64(d), d, want)
		}
	}
}

// The store may end a run while items of a foreach have not begun: these have no row.
func TestRetryRun_StartsItemsThatNeverStarted(t *testing.T) {
	t.Parallel()
	s := spec("a")
	s.Steps[0].Foreach = &Foreach{Items: items{{Key: "x"}, {Key: "y"}}}
	g := must(Compile(s))
	rows := []TaskRecord{
		{State: TaskCanceled, Generation: 1, Growth: &Growth{Generation: 1, Items: []Item{{Key: "x"}, {Key: "y"}}}},
		{ID: TaskID{Item: "x"}, State: TaskSucceeded, Generation: 1, Attempt: 1},
	}
	for range 2 { // the second time as after a crash
		r := must(Restore(g, Options{Generation: 2}, Saved{Run: RunRecord{Generation: 2}, Tasks: rows}))
		if err := r.Step(Event{Kind: EvControl, Control: &Control{ID: 1, Verb: VerbRetry, Generation: 2, Mode: RetryFailed}}); err != nil {
			t.Fatal(err)
		}
		if ready, _ := r.Ready(); ready.Records.Controls[0].Outcome != Applied {
			t.Fatalf("the retry is %+v", ready.Records.Controls[0])
		}
		if main := r.find(TaskID{}); main.State != TaskRunning || main.Generation != 2 {
			t.Errorf("the foreach is %s in generation %d", main.State, main.Generation)
		} else {
			rows[0] = main.TaskRecord
		}
	}
}

// A retry of one item of many, while the others run, changes the row of this item alone.
func TestRetryLive_OfOneItemOfAThousand(t *testing.T) {
	t.Parallel()
	const n = 1_000
	s := foreachSpec(n)
	s.MaxActive, s.Steps[0].Foreach.MaxConcurrent = 0, 0
	g, err := Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	r := New(g, Options{})
	step := func(e Event) {
		t.Helper()
		if e.At = 1; r.Step(e) != nil {
			t.Fatal(r.Step(e))
		}
	}
	step(Event{Kind: EvBegin})
	for i := range n {
		step(Event{Kind: EvGranted, Task: TaskID{Item: s.Steps[0].Foreach.Items.(items)[i].Key}})
	}
	id := TaskID{Item: "k500"}
	step(Event{Kind: EvFinished, Task: id, Attempt: 1, Result: &Result{Kind: KindExit, ExitCode: 1, HasExit: true}})
	r.Ready()
	r.Advance()
	step(Event{Kind: EvControl, Control: &Control{ID: 1, Verb: VerbRetry, Mode: RetryStep, Task: &id}})
	ready, _ := r.Ready()
	if rows := ready.Records.Tasks; len(rows) != 1 || rows[0].ID != id || rows[0].State != TaskPending || len(ready.Drops) != 0 {
		t.Errorf("%d rows, %d drops: %+v", len(rows), len(ready.Drops), rows)
	}
	if open := r.nodes[0].each.open; open != n || r.counts.Open != n+2 {
		t.Errorf("%d items are open: %+v", open, r.counts)
	}
	r.Advance()
	step(Event{Kind: EvTick})
	if ready, _ = r.Ready(); len(ready.Wants) != 1 || ready.Wants[0].Task != id {
		t.Errorf("wants %+v", ready.Wants)
	}
}

// The rows of a batch are stored in order, and a crash may store any first part of them. The mark of a canceled replacement wakes the
// canceled step behind it in any case.
func TestMarkEnded_OfAReplacementWakesTheSameStepsAfterACrash(t *testing.T) {
	g, err := Compile(Spec{Steps: []Step{
		{Name: "a", OnError: []ErrorRule{{Do: DoReplace, With: []Step{{Name: "fix"}}}}},
		{Name: "b", Depends: []Edge{{Step: "a"}}},
		{Name: "slow"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	alt := TaskID{Step: 0, Alt: 1}
	exit := func(code int) *Result { return &Result{Kind: KindExit, ExitCode: code, HasExit: true} }
	mark := Event{Kind: EvControl, Control: &Control{ID: 2, Verb: VerbMark, Task: &alt, As: TaskSucceeded}}
	for stored := range 3 {
		saved := Saved{}
		r := New(g, Options{})
		step := func(events ...Event) {
			for _, e := range events {
				if err := r.Step(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		commit := func() {
			ready, _ := r.Ready()
			saved.Tasks = append(saved.Tasks, ready.Records.Tasks...)
			if ready.Records.Run != nil {
				saved.Run = *ready.Records.Run
			}
			r.Advance()
		}
		for _, e := range []Event{
			{Kind: EvBegin},
			{Kind: EvGranted},
			{Kind: EvGranted, Task: TaskID{Step: 2}},
			{Kind: EvFinished, Attempt: 1, Result: exit(1)},
			{Kind: EvGranted, Task: alt},
			{Kind: EvControl, Control: &Control{ID: 1, Verb: VerbCancel, Task: &alt}},
			{Kind: EvFinished, Task: alt, Attempt: 1, Result: exit(143)},
		} {
			step(e)
			commit()
		}
		step(mark)
		ready, _ := r.Ready()
		saved.Tasks = append(saved.Tasks, ready.Records.Tasks[:stored]...)
		if r, err = Restore(g, Options{}, saved); err != nil {
			t.Fatal(err)
		}
		step(mark, Event{Kind: EvBegin})
		commit()
		step(Event{Kind: EvTick})
		if b, _ := r.Task(TaskID{Step: 1}); b.State != TaskReady {
			t.Errorf("%d rows were stored before the crash: b is %s, not ready", stored, b.State)
		}
	}
}
