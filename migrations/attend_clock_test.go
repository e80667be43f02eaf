package migrations_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// stepping is a database with a clock that the test steps.
func stepping(t *testing.T) bundle {
	t.Helper()
	b := api(t)
	b.put(t, nightlyDAG)
	if err := pgtest.MakeClockStep(t.Context(), b.conn); err != nil {
		t.Fatal(err)
	}
	return b
}

// at sets how far the clock is ahead of the server, and attends to all items that are due then.
func (b bundle) at(t *testing.T, ahead time.Duration) {
	t.Helper()
	if err := pgtest.StepClock(t.Context(), b.conn, ahead); err != nil {
		t.Fatal(err)
	}
	const due = "SELECT EXISTS (SELECT FROM oarlock.agenda a WHERE a.at <= now())"
	for range 5 { // each decides 20 times of a schedule
		if !get[bool](t, b.conn, due) {
			return
		}
		attend(t, b.conn)
	}
	if get[bool](t, b.conn, due) {
		t.Fatalf("%v ahead: something stays due", ahead)
	}
}

// checkOnce requires that the record of a schedule has each decided time once, and a run for each time that fired.
func (b bundle) checkOnce(t *testing.T, id int64) {
	t.Helper()
	const recorded = `SELECT concat_ws(' ', sum(f.count), count(DISTINCT f.run_id)) FROM oarlock.fires f WHERE f.schedule_id = $1`
	const decided = `SELECT concat_ws(' ', oarlock.count_times(s.timing, (s.timing).start_at - interval '1 second', s.decided_at), (SELECT count(*) FROM oarlock.runs r WHERE r.schedule_id = s.schedule_id))
	                   FROM oarlock.schedules s WHERE s.schedule_id = $1`
	if got, want := get[string](t, b.conn, recorded, id), get[string](t, b.conn, decided, id); got != want {
		t.Errorf("the record has %s times and runs, the schedule %s", got, want)
	}
	const beside = `SELECT count(*) FROM oarlock.fires f JOIN oarlock.fires o USING (schedule_id)
	                 WHERE schedule_id = $1 AND o.logical_at > f.logical_at AND o.logical_at <= coalesce(f.until, f.logical_at)`
	if n := get[int](t, b.conn, beside, id); n != 0 {
		t.Errorf("%d times are decided twice", n)
	}
}

// Each schedule fires hourly, has fired half an hour ago, and fires next in half an hour.
func TestAttend_AClockThatSteps(t *testing.T) {
	t.Parallel()
	b := stepping(t)
	const day = 24 * time.Hour
	type moment struct {
		ahead time.Duration
		want  string // the decisions up to then
	}
	back := func(ahead time.Duration, first, then string) []moment { // there, back, and there again; then the next time comes
		return []moment{{ahead, first}, {0, first}, {31 * time.Minute, first}, {ahead, first}, {ahead + time.Hour, then}, {0, then}}
	}
	for name, test := range map[string]struct {
		settings string
		moments  []moment
	}{
		"an hour back":        {"", []moment{{-time.Hour, "fired"}, {-29 * time.Minute, "fired"}, {29 * time.Minute, "fired"}, {31 * time.Minute, "fired, fired"}}},
		"a day back":          {", catchup => true", []moment{{-day, "fired"}, {0, "fired"}, {31 * time.Minute, "fired, fired"}}},
		"half an hour ahead":  {"", back(32*time.Minute, "fired, fired", "fired, fired, fired")},
		"an hour ahead":       {"", back(time.Hour+31*time.Minute, "fired, dropped, fired", "fired, dropped, fired, fired")},
		"a day ahead":         {"", back(day, "fired, dropped 24", "fired, dropped 24, dropped")},
		"a day, made up for":  {", catchup => true, overlap_policy => 'allow'", back(day, "fired"+strings.Repeat(", fired", 24), "fired"+strings.Repeat(", fired", 25))},
		"a day, for the last": {", catchup => true, overlap_policy => 'latest', at_once => 5", back(day, "fired, skipped 23, fired", "fired, skipped 23, fired, fired")},
		"a day, in a window":  {", catchup => true, overlap_policy => 'allow', catchup_window => '2 hours'", back(day, "fired, dropped 22, fired, fired", "fired, dropped 22, fired, fired, fired")},
	} {
		settings := test.settings
		if !strings.Contains(settings, "overlap_policy") {
			settings += ", overlap_policy => 'allow'"
		}
		b.at(t, 0)
		id := b.hourly(t, name, 1, settings)
		must(t, b.conn, "UPDATE oarlock.agenda SET held_from = at WHERE id = $1", id) // so that the time is not too late
		attend(t, b.conn)
		for i, m := range test.moments {
			b.at(t, m.ahead)
			if got := b.decided(t, id); got != m.want {
				t.Errorf("%s: at moment %d, %v ahead: %s, want %s", name, i, m.ahead, got, m.want)
			}
		}
		b.checkOnce(t, id)
		must(t, b.conn, "SELECT oarlock.drop_schedule('nightly', $1)", name)
	}
}

// A run that holds back a time ends while the clock is ahead, or when it is right again. With the right clock, the time fires
// at once. Otherwise it fires at the latest when the clock shows the time of the end again.
func TestAttend_AClockThatStepsHoldsNothingBackForEver(t *testing.T) {
	t.Parallel()
	b := stepping(t)
	const day = 24 * time.Hour
	for _, ended := range []time.Duration{0, day} { // how much the clock is ahead when the run ends
		b.at(t, 0)
		name := fmt.Sprintf("ended %v ahead", ended)
		id := b.hourly(t, name, 1, ", overlap_policy => 'all', catchup => true")
		run := b.unfinished(t, id)
		b.at(t, 0)
		b.at(t, day)
		if got := b.decided(t, id); got != "fired" { // the unfinished run's own
			t.Fatalf("%s: while a run is unfinished: %s", name, got)
		}
		if err := pgtest.StepClock(t.Context(), b.conn, ended); err != nil {
			t.Fatal(err)
		}
		must(t, b.conn, "SELECT oarlock.cancel($1)", run)
		b.at(t, 0)
		b.at(t, ended+2*time.Minute)
		if got := b.decided(t, id); got != "fired, fired" {
			t.Errorf("%s: %s", name, got)
		}
		must(t, b.conn, "SELECT oarlock.drop_schedule('nightly', $1)", name)
	}
}
