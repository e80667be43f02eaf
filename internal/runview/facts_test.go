package runview

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// noon returns a time, in seconds after noon, in the local zone.
func noon(seconds int) time.Time {
	return time.Date(2026, 11, 22, 12, 0, seconds, 0, time.Local)
}

func TestFacts_SayWhatIsKnown(t *testing.T) {
	t.Parallel()
	local := func(seconds int) string { return LocalTime(noon(seconds)) }
	spec := &dagspec.Spec{ParamDefs: []dagspec.Param{{Name: "day", Default: "x"}, {Name: "limit", Default: 10}, {Name: "none"}}}
	nightly := &queue.Schedule{Schedule: dagspec.Schedule{Timezone: "UTC", Jitter: 1000}}
	type line struct{ Name, Value, Aside string }
	for name, c := range map[string]struct {
		detail RunDetail
		want   []line
	}{
		"Least": {
			RunDetail{Run: &queue.Run{SubmittedBy: "app", Queue: "default", Trigger: "sql", CreatedAt: noon(0)}},
			[]line{{"asked", local(0) + " by app", ""}},
		},
		"Defaults": {
			RunDetail{Run: &queue.Run{SubmittedBy: "app", Queue: "default", CreatedAt: noon(0), Params: json.RawMessage(`{"day": "y"}`)}, Spec: spec},
			[]line{{"params", "day=y", "by default limit=10"}, {"asked", local(0) + " by app", ""}},
		},
		"OnlyDefaults": {
			RunDetail{Run: &queue.Run{SubmittedBy: "app", Queue: "default", CreatedAt: noon(0), Params: json.RawMessage(`{}`)}, Spec: spec},
			[]line{{"params", "", "by default day=x limit=10"}, {"asked", local(0) + " by app", ""}},
		},
		"Lost": {
			RunDetail{
				Run:    &queue.Run{SubmittedBy: "app", Queue: "slow", Priority: 5, CreatedAt: noon(0), Epoch: 3, RunAt: noon(10), StartedAt: noon(12), FinishedAt: noon(20)},
				Driver: "w3", Lost: []LostDriver{{"w1", noon(13)}, {"", noon(15)}},
			},
			[]line{
				{"asked", local(0) + " by app", ""},
				{"queue", "slow, priority 5", ""},
				{"started", local(12) + " after 2.0s in the queue, ended " + local(20), ""},
				{"driven", "by w3, drive 3 (workers took the run up again twice), worker w1 was lost at 12:00:13, worker (unknown) was lost at 12:00:15", ""},
			},
		},
		"Schedule": {
			RunDetail{Run: &queue.Run{
				SubmittedBy: "app", Queue: "default", Trigger: "schedule", Schedule: "nightly", LogicalAt: time.Date(2026, 11, 20, 3, 30, 0, 0, time.UTC),
				CreatedAt: time.Date(2026, 11, 20, 3, 30, 4, 0, time.UTC), Generation: 2, Parent: 7, RetryOf: 8,
			}, Schedule: nightly},
			[]line{
				{"asked", LocalTime(time.Date(2026, 11, 20, 3, 30, 4, 0, time.UTC)) + " by app, schedule", ""},
				{"schedule", "nightly, for 2026-11-20 03:30 UTC, late by 3.0s", ""},
				{"generation", "2: the run was retried", ""},
				{"parent", "run 7", ""},
				{"retry of", "run 8", ""},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []line
			for _, f := range Facts(c.detail) {
				got = append(got, line{f.Name, f.Value.String(), f.Aside})
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("- want, + got\n%s", diff)
			}
		})
	}
}

// A page shows times in its reader's zone. For that the times must be pieces of their own.
func TestFacts_KeepTimesApart(t *testing.T) {
	t.Parallel()
	r := &queue.Run{SubmittedBy: "app", CreatedAt: noon(0), StartedAt: noon(1), FinishedAt: noon(2), Schedule: "gone", LogicalAt: noon(3)}
	var got []time.Time
	for _, f := range Facts(RunDetail{Run: r, Lost: []LostDriver{{"w1", noon(4)}}}) {
		for _, piece := range f.Value {
			if !piece.Time.IsZero() {
				got = append(got, piece.Time)
			}
		}
	}
	if diff := cmp.Diff([]time.Time{noon(0), noon(3), noon(1), noon(2), noon(4)}, got); diff != "" {
		t.Errorf("- want, + got\n%s", diff)
	}
}

func TestFacts_HideTheLabelOfRun(t *testing.T) {
	t.Parallel()
	r := &queue.Run{SubmittedBy: "app", Queue: "default", CreatedAt: noon(0), Labels: map[string]string{HereLabel: HereValue}}
	for _, f := range Facts(RunDetail{Run: r}) {
		if f.Name == "labels" {
			t.Errorf("it shows the labels %q", f.Value)
		}
	}
	if len(r.Labels) != 1 {
		t.Error("it changed the run's labels")
	}
}

func TestLostDrivers_AreThoseOfTheRun(t *testing.T) {
	t.Parallel()
	got := LostDrivers([]queue.Event{{Kind: "lost", Step: "load", Worker: "w1"}, {Kind: "skip", Worker: "w2"}, {Kind: "lost", Worker: "w3", At: noon(1)}})
	if diff := cmp.Diff([]LostDriver{{"w3", noon(1)}}, got); diff != "" {
		t.Errorf("- want, + got\n%s", diff)
	}
}
