package worker

import (
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// rigged is a worker's clock with a time since boot that the test sets.
type rigged struct {
	clock
	passed time.Duration
}

func newRigged() *rigged {
	r := &rigged{}
	r.boot = func() time.Duration { return r.passed }
	return r
}

// sets renews the clock from a given time of the database.
func (r *rigged) sets(now dagrun.Time) { r.set(now, r.passed) }

func wantTime(t *testing.T, when string, got, want dagrun.Time) {
	t.Helper()
	if got != want {
		t.Errorf("%s: it is %d, want %d", when, got, want)
	}
}

const hour = dagrun.Time(3_600_000)

func TestClock_GoesBackWithTheDatabase(t *testing.T) {
	t.Parallel()
	c := newRigged()
	c.sets(10*hour + 5)
	c.passed = 20 * time.Millisecond
	wantTime(t, "while it is ahead", c.now(), 10*hour+25)
	c.sets(9 * hour)
	wantTime(t, "once it is right", c.now(), 9*hour)
}

func TestRunClock_NeverGoesBackAndNeverStandsStill(t *testing.T) {
	t.Parallel()
	c := newRigged()
	c.sets(10 * hour)
	run := newRunClock(&c.clock, 0)
	wantTime(t, "at first", run.now(), 10*hour)
	c.sets(9 * hour)
	wantTime(t, "when the clock was set back", run.now(), 10*hour)
	for range 10_000 { // however often it is read
		c.passed += 300 * time.Microsecond
		run.now()
	}
	wantTime(t, "3 s later", run.now(), 10*hour+3000)
	if _, ahead := run.read(); ahead != hour {
		t.Errorf("it is ahead by %d, want %d", ahead, hour)
	}
	wantTime(t, "a moment to come", run.database(10*hour+4000), 9*hour+4000)
	wantTime(t, "a moment of the database", run.own(9*hour+4000), 10*hour+4000)
	wantTime(t, "no moment", run.database(0)+run.own(0), 0)
	if d := run.until(10*hour + 4000); d != time.Second {
		t.Errorf("until then it takes %v, want 1s", d)
	}
	c.sets(10*hour + 60_000)
	wantTime(t, "when the clock has come as far", run.now(), 10*hour+60_000)
	if _, ahead := run.read(); ahead != 0 {
		t.Errorf("it is ahead by %d, want 0", ahead)
	}
}

// A renewal that took long makes the database seem to be a little behind. That must not count as a clock that was set back.
func TestRunClock_WaitsForADatabaseThatSeemsALittleBehind(t *testing.T) {
	t.Parallel()
	c := newRigged()
	c.sets(hour)
	run := newRunClock(&c.clock, 0)
	run.now()
	c.sets(hour - 900)
	wantTime(t, "at once", run.now(), hour)
	c.passed += 500 * time.Millisecond
	wantTime(t, "soon", run.now(), hour)
	c.passed += 500 * time.Millisecond
	wantTime(t, "then", run.now(), hour+100)
	if _, ahead := run.read(); ahead != 0 {
		t.Errorf("it is ahead by %d, want 0", ahead)
	}
}

// A run that has records with a later time goes on from there; other runs on the same worker do not.
func TestRunClock_BeginsAfterWhatIsStored(t *testing.T) {
	t.Parallel()
	c := newRigged()
	c.sets(9 * hour)
	late, plain := newRunClock(&c.clock, 10*hour), newRunClock(&c.clock, 9*hour-5)
	c.passed += time.Second
	wantTime(t, "of a run with records of a later time", late.now(), 10*hour+1000)
	wantTime(t, "of another", plain.now(), 9*hour+1000)
}

func TestRunClock_StoresWhatIsToComeByTheDatabase(t *testing.T) {
	t.Parallel()
	c := newRigged()
	c.sets(9 * hour)
	run := newRunClock(&c.clock, 10*hour)
	tasks := []dagrun.TaskRecord{{NextAt: 10*hour + 5, Deadline: 10*hour + 6, StartedAt: 10 * hour, AttemptAt: 10 * hour, FinishedAt: 10 * hour}}
	rec := dagrun.Records{Tasks: tasks, Run: &dagrun.RunRecord{WakeAt: 10*hour + 7, Deadline: 10*hour + 8, StartedAt: 10 * hour}}
	leave := run.stored(&rec, &dagrun.Leave{WakeAt: 10*hour + 7})
	got := rec.Tasks[0]
	wantTime(t, "the next attempt", got.NextAt, 9*hour+5)
	wantTime(t, "the deadline of a task", got.Deadline, 9*hour+6)
	wantTime(t, "the deadline of the run", rec.Run.Deadline, 9*hour+8)
	wantTime(t, "when it is woken", leave.WakeAt, 9*hour+7)
	wantTime(t, "when it is woken, in its row", rec.Run.WakeAt, 9*hour+7)
	wantTime(t, "what has happened", got.StartedAt+got.AttemptAt+got.FinishedAt+rec.Run.StartedAt, 40*hour)
	wantTime(t, "what the core knows", tasks[0].NextAt, 10*hour+5)
	saved := dagrun.Saved{Run: *rec.Run, Tasks: rec.Tasks}
	run.restored(&saved)
	wantTime(t, "the next attempt, loaded", saved.Tasks[0].NextAt, 10*hour+5)
	wantTime(t, "the deadline, loaded", saved.Run.Deadline, 10*hour+8)
}

// The answer to a poll carries the time of the database. If that clock was set since the last sign of life, the worker notices before
// it drives the claimed runs.
func TestClock_IsComparedWithWhatAPollSays(t *testing.T) {
	t.Parallel()
	c := newRigged()
	c.sets(9 * hour)
	c.passed = 4 * time.Second
	asked := c.passed
	c.passed = 6 * time.Second // the poll took 2 s
	for name, said := range map[string]dagrun.Time{"at once": 9*hour + 4000, "at the end": 9*hour + 6000, "a little off": 9*hour + 6900} {
		c.compare(said, asked)
		wantTime(t, "when the poll looked "+name, c.now(), 9*hour+6000)
	}
	c.compare(10*hour, asked)
	wantTime(t, "when it was set ahead", c.now(), 10*hour+2000)
	c.compare(9*hour, asked)
	wantTime(t, "when it was set back", c.now(), 9*hour+2000)
}
