package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// A preview of a backfill shows its decisions in their order. The schedule's own records show what the backfill then does.
func TestBackfill_DoesWhatItsTimesSay(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	d.put(t, `
name: etl
params: [{name: n, type: integer, default: 1}]
schedule: {name: nightly, cron: 30 3 * * *, timezone: Europe/Paris, params: {n: 2}}
steps: [{id: load, run: "true"}]
`)
	ask := queue.Backfill{
		Of: queue.ScheduleKey{DAG: "etl", Name: "nightly"}, From: time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 3, 30, 1, 30, 0, 0, time.UTC),
		AtOnce: 2, NewestFirst: true, Params: map[string]any{"n": 3},
	}
	times, err := d.store.BackfillTimes(t.Context(), &ask, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []time.Time{time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC), time.Date(2026, 3, 28, 2, 30, 0, 0, time.UTC)}
	if len(times) != len(want) {
		t.Fatalf("%d times: %+v", len(times), times)
	}
	for i, at := range want {
		if got := times[i]; !got.LogicalAt.Equal(at) || got.Outcome != "fires" || got.Run != 0 || got.Reason != "" {
			t.Errorf("time %d is %+v, want it to fire at %v", i, got, at)
		}
	}
	id, err := d.store.Backfill(t.Context(), &ask)
	if err != nil || id == 0 {
		t.Fatal(id, err)
	}
	listed, err := d.store.Schedules(t.Context(), queue.ScheduleFilter{DAG: "etl"})
	if err != nil || len(listed) != 2 || listed[0].Backfill != nil || listed[1].Backfill == nil {
		t.Fatalf("%+v, %v", listed, err)
	}
	if b := listed[1].Backfill; listed[1].ID != id || b.Of != listed[0].ID || !b.From.Equal(ask.From) || !b.Until.Equal(ask.Until) ||
		b.Reprocess != "missing" || !b.NewestFirst || !b.DecidedAt.Equal(ask.Until) {
		t.Errorf("it is listed as %+v", b)
	}
	if _, err = d.conn.Exec(t.Context(), "SELECT oarlock.attend('-infinity', 32)"); err != nil {
		t.Fatal(err)
	}
	times, err = d.store.BackfillTimes(t.Context(), &ask, 1)
	if err != nil || len(times) != 1 || times[0].Outcome != "skipped" || times[0].Run == 0 || times[0].Reason == "" {
		t.Errorf("again: %+v, %v", times, err)
	}
	run, err := d.store.Get(t.Context(), times[0].Run)
	if err != nil || run.Trigger != "backfill" || string(run.Params) != `{"n": 3}` || run.Priority != -10 {
		t.Errorf("its run is %+v, %v", run, err)
	}
	ask.Of.Owner = "nobody"
	if _, err = d.store.BackfillTimes(t.Context(), &ask, 1); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("of the schedule of another user: %v", err)
	}
	ask.Of.Owner, ask.Of.OfFile, ask.Of.Name = "", true, "daily"
	if _, err = d.store.Backfill(t.Context(), &ask); err == nil {
		t.Error("of a schedule that is not there")
	}
	ask.Of.Name, ask.Params = "nightly", nil
	if _, err = d.store.Backfill(t.Context(), &ask); err != nil {
		t.Errorf("with the params of its schedule: %v", err)
	}
	ask.Params = map[string]any{"n": "x"}
	var known *queue.Error
	if _, err = d.store.Backfill(t.Context(), &ask); !errors.As(err, &known) || known.Code != "OA003" {
		t.Errorf("with a bad param: %v", err)
	}
}
