package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// scheduled is a DAG of one short step. A test adds its schedules by SQL.
const scheduled = `
name: scheduled
allow: {schedules: true}
steps: [{id: a, run: 'true'}]
`

// checkFires expects each fire time of each schedule to be decided once, and each run of a schedule to have a fire time.
func (b *testBundle) checkFires(t *testing.T) {
	t.Helper()
	rows, _ := b.conn.Query(t.Context(), chaosStatement("fires_amiss"))
	amiss, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range amiss {
		t.Error(line)
	}
}

// do executes a statement on the connection of tally.
func (b *testBundle) do(t *testing.T, name string, args ...any) {
	t.Helper()
	if _, err := b.conn.Exec(t.Context(), chaosStatement(name), args...); err != nil {
		t.Fatal(err)
	}
}

// Each of four workers is killed in the middle of a fire: the server goes on with a call that has lost its client.
func TestSchedules_KilledWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, scheduled)
	n := times(200, 2000)
	if put := tally[int](t, b, "schedules_put", "scheduled", n); put != n {
		t.Fatalf("%d schedules, want %d", put, n)
	}
	if err := script(t.Context(), b.db.URL, "fires_gate"); err != nil {
		t.Fatal(err)
	}
	begin := func(i int) *process {
		name := fmt.Sprintf("w%d", i)
		return b.worker(t, name, append(slices.Clone(short), "$PGAPPNAME="+name)...)
	}
	var workers [4]*process
	for i := range workers {
		workers[i] = begin(i)
	}
	var drivers [len(workers)]int
	for i := range workers {
		_, drivers[i] = b.driver(t, fmt.Sprintf("w%d", i))
	}
	b.do(t, "schedules_due")
	for i, w := range workers {
		b.do(t, "fires_permit", n/8)
		name := fmt.Sprintf("w%d", i)
		until(t, name+" is in the middle of a fire", func() bool { return tally[bool](t, b, "fires_stand", name) })
		killAll(t, w.Process.Pid, drivers[i])
		begin(i + len(workers))
	}
	b.do(t, "fires_permit", 2*n) // tries that a worker's death rolled back count too
	open := func() int { return n - tally[int](t, b, "schedules_won") + tally[int](t, b, "schedules_open") }
	for left := open(); left > 0; left = open() { // until bounds one change, not the whole loop
		until(t, "another one is over", func() bool { return open() < left })
	}
	if got := b.outcomes(t); got != fmt.Sprintf("fired %d", n) {
		t.Errorf("of %d times: %s", n, got)
	}
	if got := tally[int](t, b, "schedules_won"); got != n {
		t.Errorf("%d runs succeeded, want %d", got, n)
	}
	b.checkFires(t)
}

// outcomes counts the fire times of all schedules by their outcome.
func (b *testBundle) outcomes(t *testing.T) (text string) {
	t.Helper()
	rows, _ := b.conn.Query(t.Context(), chaosStatement("schedules_counts"))
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s string, err error) {
		var outcome string
		var times int
		err = row.Scan(&outcome, &times)
		return fmt.Sprint(outcome, " ", times), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, ", ")
}

// fate is the outcome of one or more fire times of a schedule.
type fate struct {
	outcome string
	times   int
	late    float64 // seconds, of the first
}

func (b *testBundle) fates(t *testing.T, schedule string) []fate {
	t.Helper()
	rows, _ := b.conn.Query(t.Context(), chaosStatement("schedules_fates"), schedule)
	fates, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f fate, err error) { return f, row.Scan(&f.outcome, &f.times, &f.late) })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %v", schedule, fates)
	return fates
}

// The database is away at the time of a daily schedule, and of schedules of every minute with and without catchup.
func TestSchedules_Outage(t *testing.T) {
	t.Parallel()
	if !*nightly {
		t.Skip("takes five minutes, in real time")
	}
	b, node := setupOn(t, nil)
	b.put(t, scheduled)
	b.worker(t, "w1")
	b.worker(t, "w2")
	b.driver(t, "w1")
	for _, away := range []int{59, 61, 120} { // seconds; a fire time is late after 60
		first := tally[time.Time](t, b, "schedules_outage", "scheduled", away)
		node.Crash(t)
		if !time.Now().Before(first) {
			t.Fatal("the first time came before the outage: this machine is too slow")
		}
		b.pass(t, time.Duration(away)*time.Second)
		node.Start(t)
		b.conn = nil
		until(t, "all times are decided, and all runs are over", func() bool { return tally[int](t, b, "schedules_open") == 0 })
		b.checkOutage(t, away)
	}
	b.checkFires(t)
}

// checkOutage expects for the fire times of an outage what the table of docs/schedules.md says.
func (b *testBundle) checkOutage(t *testing.T, away int) {
	t.Helper()
	daily := b.fates(t, fmt.Sprintf("daily %d", away))
	if len(daily) != 1 || daily[0].outcome != "fired" || daily[0].late < float64(away-10) || daily[0].late > 600 {
		t.Errorf("away for %d s: the daily one is %v", away, daily)
	}
	caughtUp := b.fates(t, fmt.Sprintf("caught up %d", away))
	for _, f := range caughtUp {
		if f.outcome != "fired" {
			t.Errorf("away for %d s: of what is caught up %v", away, f)
		}
	}
	times := 0
	for _, f := range b.fates(t, fmt.Sprintf("minutes %d", away)) {
		times += f.times
		if f.outcome == "dropped" && f.late < 60 || f.outcome == "fired" && f.late > 65 || f.outcome == "skipped" {
			t.Errorf("away for %d s: of what is not caught up %v", away, f)
		}
	}
	if want := (away + 57) / 60; times != want || len(caughtUp) != want { // the first comes after 3 s
		t.Errorf("away for %d s: %d times without catchup, %d with, want %d", away, times, len(caughtUp), want)
	}
}
