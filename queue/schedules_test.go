package queue_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

const scheduledDAG = `
name: etl
allow: {schedules: true}
params: [{name: n, type: integer, default: 1}, {name: any, type: json}]
schedule: {name: nightly, cron: 30 3 * * *, timezone: Europe/Paris, params: {n: 2}}
steps: [{id: load, run: "true"}]
`

func newScheduledDesk(t *testing.T) *clientBundle {
	t.Helper()
	d := newClientBundle(t)
	d.put(t, scheduledDAG)
	return d
}

func (d *clientBundle) schedules(t *testing.T, store *queue.Store, f queue.ScheduleFilter) []queue.Schedule {
	t.Helper()
	all, err := store.Schedules(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPutSchedule_IsReadAsItWasPut(t *testing.T) {
	t.Parallel()
	d := newScheduledDesk(t)
	put := dagspec.Schedule{
		Name: "often", Every: 90 * 60_000, Start: "2026-11-01T00:00:00Z", End: "2126-11-01T00:00:00Z", Except: []string{"2026-12-25"}, Timezone: "Europe/Oslo",
		Jitter: 300_000, Params: map[string]any{"n": json.Number("3"), "any": []any{json.Number("1" + strings.Repeat("0", 400))}}, Labels: map[string]string{"kind": "x"}, OverlapPolicy: "latest", AtOnce: 2,
		PauseOnFailure: 4, Catchup: true, CatchupWindow: 86_400_000, CatchupMax: 7,
	}
	id, next, err := d.store.PutSchedule(t.Context(), "etl", put)
	if err != nil || next.Before(time.Now().Add(-time.Minute)) {
		t.Fatal(id, next, err)
	}
	got := d.schedules(t, d.store, queue.ScheduleFilter{DAG: "etl", Name: "often"})
	put.Enabled = true
	if len(got) != 1 || got[0].ID != id || !got[0].NextAt.Equal(next) || got[0].Owner == "" {
		t.Fatalf("%+v", got)
	}
	wantEqual(t, got[0].Schedule, put)
	if _, _, err = d.store.PutSchedule(t.Context(), "etl", dagspec.Schedule{Name: "once", At: "2126-12-24T18:00:00Z"}); err != nil {
		t.Fatal(err)
	}
	got = d.schedules(t, d.store, queue.ScheduleFilter{Name: "once"})
	wantEqual(t, got[0].Schedule, dagspec.Schedule{
		Name: "once", At: "2126-12-24T18:00:00Z", Timezone: "UTC", Enabled: true, OverlapPolicy: "skip", AtOnce: 1, CatchupMax: 100,
		Except: []string{}, Params: map[string]any{}, Labels: map[string]string{},
	})
}

func TestSchedules_SteersByKey(t *testing.T) {
	t.Parallel()
	d := newScheduledDesk(t)
	if _, _, err := d.store.PutSchedule(t.Context(), "etl", dagspec.Schedule{Name: "nightly", Cron: "@daily"}); err != nil {
		t.Fatal(err)
	}
	both := d.schedules(t, d.store, queue.ScheduleFilter{DAG: "etl"})
	filed := d.schedules(t, d.store, queue.ScheduleFilter{OfFile: true})
	if len(both) != 2 || len(filed) != 1 || filed[0].Cron != "30 3 * * *" || filed[0].Key() == both[1].Key() {
		t.Fatalf("%+v\n%+v", both, filed)
	}
	if second := d.schedules(t, d.store, queue.ScheduleFilter{After: both[0].ID, Limit: 1}); len(second) != 1 || second[0].ID != both[1].ID {
		t.Errorf("%+v", second)
	}
	key := filed[0].Key()
	if err := d.store.PauseSchedule(t.Context(), key, "new disks"); err != nil {
		t.Fatal(err)
	}
	paused := d.schedules(t, d.store, queue.ScheduleFilter{OfFile: true})[0]
	if paused.PausedBy == "" || paused.PausedAt.IsZero() || paused.PauseNote != "new disks" || !paused.NextAt.IsZero() {
		t.Errorf("%+v", paused)
	}
	run, err := d.store.TriggerSchedule(t.Context(), key, time.Date(2026, 11, 20, 2, 30, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	if r := d.get(t, run); r.Schedule != "nightly" || string(r.Params) != `{"n": 2}` || !r.PreviousLogicalAt.Equal(time.Date(2026, 11, 19, 2, 30, 0, 0, time.UTC)) {
		t.Errorf("%+v", r)
	}
	fires, err := d.store.Fires(t.Context(), key, time.Time{}, 9)
	if err != nil || len(fires) != 1 || fires[0].Outcome != "fired" || fires[0].Run != run || fires[0].RunState != "queued" || fires[0].Times != 1 {
		t.Errorf("%+v %v", fires, err)
	}
	if s := d.schedules(t, d.store, queue.ScheduleFilter{OfFile: true})[0]; s.Last.Run != run || s.Last.Outcome != "fired" || s.Unfinished != 1 {
		t.Errorf("%+v", s)
	}
	if fires, err := d.store.Fires(t.Context(), key, time.Now(), 9); err != nil || len(fires) != 0 {
		t.Errorf("%+v %v", fires, err)
	}
	next, err := d.store.ResumeSchedule(t.Context(), key, false)
	times, err2 := d.store.FireTimes(t.Context(), key, 2)
	if err != nil || err2 != nil || len(times) != 2 || !times[0].Equal(next) || !times[1].After(next) {
		t.Errorf("next %v, times %v, %v %v", next, times, err, err2)
	}
	wantError(t, d.store.DropSchedule(t.Context(), key), nil, "OA013")
	if err := d.store.DropSchedule(t.Context(), queue.ScheduleKey{DAG: "etl", Name: "nightly"}); err != nil { // the user's own comes first
		t.Fatal(err)
	}
	if left := d.schedules(t, d.store, queue.ScheduleFilter{}); len(left) != 1 || left[0].ID != filed[0].ID {
		t.Errorf("%+v", left)
	}
	_, err = d.store.TriggerSchedule(t.Context(), queue.ScheduleKey{DAG: "etl", Name: "none"}, time.Time{})
	wantError(t, err, queue.ErrNotFound, "OA016")
}

func TestPutDAGUnscheduled_LeavesSchedulesAlone(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	put := func(source string) queue.Put {
		t.Helper()
		put, err := d.store.PutDAGUnscheduled(t.Context(), parsed(t, source), source, "")
		if err != nil {
			t.Fatal(err)
		}
		return put
	}
	if first := put(scheduledDAG); !first.IsNew || len(d.schedules(t, d.store, queue.ScheduleFilter{})) != 0 {
		t.Errorf("%+v", first)
	}
	if again := put(scheduledDAG); again.IsNew || again.Version != 1 {
		t.Errorf("%+v", again)
	}
	if whole := d.put(t, scheduledDAG); !whole.IsNew || whole.Version != 2 || len(d.schedules(t, d.store, queue.ScheduleFilter{})) != 1 {
		t.Errorf("%+v", whole)
	}
	if again := put(scheduledDAG); again.IsNew || again.Version != 2 {
		t.Errorf("%+v, the whole is current", again)
	}
	if other := put(scheduledDAG + "priority: 3\n"); !other.IsNew || other.Version != 3 || len(d.schedules(t, d.store, queue.ScheduleFilter{})) != 1 {
		t.Errorf("%+v", other)
	}
}

func TestSchedules_SubmittersHaveTheirOwn(t *testing.T) {
	t.Parallel()
	d := newScheduledDesk(t)
	app := d.open(t, d.user(t, "app", "oarlock_submit"))
	if _, _, err := app.PutSchedule(t.Context(), "etl", dagspec.Schedule{Name: "mine", Cron: "@hourly"}); err != nil {
		t.Fatal(err)
	}
	if own := d.schedules(t, app, queue.ScheduleFilter{}); len(own) != 1 || own[0].Name != "mine" {
		t.Errorf("%+v", own)
	}
	wantError(t, app.PauseSchedule(t.Context(), queue.ScheduleKey{DAG: "etl", Name: "nightly"}, ""), queue.ErrNotFound, "OA016")
	_, _, err := app.PutSchedule(t.Context(), "report", dagspec.Schedule{Name: "mine", Cron: "@hourly"})
	wantError(t, err, nil, "OA005")
	_, _, err = app.PutSchedule(t.Context(), "etl", dagspec.Schedule{Name: "mine", Cron: "61 * * * *"})
	wantError(t, err, nil, "OA013")
}

func TestSchedules_OutliveALostReply(t *testing.T) {
	t.Parallel()
	d := newScheduledDesk(t)
	proxy, store := d.through(t)
	steer := func(do func() error) {
		t.Helper()
		cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Cut})
		err := do()
		cut.MustFire(t)
		if err != nil {
			t.Fatal(err)
		}
	}
	key := queue.ScheduleKey{DAG: "etl", Name: "mine"}
	at := time.Date(2026, 11, 20, 2, 30, 0, 0, time.UTC)
	var run queue.RunID
	steer(func() error {
		_, _, err := store.PutSchedule(t.Context(), "etl", dagspec.Schedule{Name: "mine", Cron: "@hourly"})
		return err
	})
	steer(func() (err error) { run, err = store.TriggerSchedule(t.Context(), key, at); return err })
	steer(func() error { return store.DropSchedule(t.Context(), key) })
	if runs := value[int64](t, d, "SELECT max(run_id) FROM oarlock.runs"); runs != int64(run) || len(d.schedules(t, d.store, queue.ScheduleFilter{Name: "mine"})) != 0 {
		t.Errorf("%d runs, the last %d", runs, run)
	}
	if _, _, err := store.PutSchedule(t.Context(), "etl", dagspec.Schedule{Name: "mine", Cron: "@hourly"}); err != nil {
		t.Fatal(err)
	}
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Cut})
	_, err := store.TriggerSchedule(t.Context(), key, time.Time{})
	cut.MustFire(t)
	wantError(t, err, queue.ErrUnknown, "") // nor is it known which logical time the run would have
}

func wantEqual[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}
