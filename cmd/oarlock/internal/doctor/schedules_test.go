package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

func TestSchedules_SaysWhatIsWrongWithThem(t *testing.T) {
	t.Parallel()
	db, store := newStore(t)
	look := func(want Status, details ...string) {
		t.Helper()
		report, err := Run(t.Context(), db.URL, quiet)
		if err != nil {
			t.Fatal(err)
		}
		c := find(t, report, "schedules")
		if c.Status != want || (c.Hint == "") != (want == OK) {
			t.Errorf("%+v, want %s", c, want)
		}
		for _, detail := range details {
			if !strings.Contains(c.Detail+"\n"+c.Hint, detail) {
				t.Errorf("%+v, want %q", c, detail)
			}
		}
	}
	look(OK, "no schedule failed")
	const source = "name: etl\nschedule: [{name: every night, cron: 30 3 * * *, timezone: America/New_York}, {name: often, every: 1h}]\nsteps: [{id: a, run: 'true'}]\n"
	spec, err := dagspec.Parse("etl.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutDAG(t.Context(), spec, source, "etl.yaml"); err != nil {
		t.Fatal(err)
	}
	look(OK, "agree on time zones")
	conn := db.Conn(t)
	defer conn.Close(t.Context())
	execFile(t, conn, "overdue_schedule.sql")
	look(Fail, "no worker is live, and schedule every night of etl should have fired 5m", "; schedules in trouble: 2, among them every night of etl, often of etl", "`oarlock worker`")
	execFile(t, conn, "live_worker.sql")
	look(Fail, "schedule every night of etl should have fired 5m", ", and a worker is live; ")
	execFile(t, conn, "held_schedule.sql")
	look(OK, "no schedule failed")
	execFile(t, conn, "refused_fire.sql")
	look(Warn, "the latest time of schedule every night of etl made no run: param n is not known; schedules in trouble: 2, ",
		"`oarlock schedules trigger etl 'every night' --at 2026-11-20T03:30:00Z`")
	execFile(t, conn, "failed_schedule.sql")
	look(Warn, "the times of schedule every night of etl cannot be decided: out of luck")
}

// The server has its own time zone data, so both are compared hour by hour.
func TestFirstDifference_IsThatOfTheFirstHour(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	spring, autumn := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)
	paris := []change{{"Europe/Paris", from, 3600}, {"Europe/Paris", spring, 7200}, {"Europe/Paris", autumn, 3600}}
	for name, c := range map[string]struct {
		changes []change
		at      time.Time // zero: no difference
	}{
		"none":            {nil, time.Time{}},
		"the same":        {append([]change{{"Asia/Kolkata", from, 19800}}, paris...), time.Time{}},
		"no summer there": {paris[:1], spring},
		"an hour late":    {[]change{paris[0], {"Europe/Paris", spring.Add(time.Hour), 7200}, paris[2]}, spring},
		"unknown here":    {[]change{{"Mars/Olympus", from, 0}}, from},
	} {
		zone, at, differs := firstDifference(c.changes, from)
		if !at.Equal(c.at) || differs == c.at.IsZero() || differs != (zone != "") {
			t.Errorf("%s: %s %v %v, want %v", name, zone, at, differs, c.at)
		}
	}
}
