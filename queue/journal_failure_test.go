package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
)

// toldWithin is how soon a failure of flushes must be known.
const toldWithin = 5 * time.Second

// failing waits until the journal reports a failure, and wants its cause.
func (y *journalBundle) failing(cause string) {
	y.tb.Helper()
	began := time.Now()
	y.eventually("the journal tells of a failure", func() bool { return y.failure().Failing() })
	if took := time.Since(began); took > toldWithin {
		y.tb.Errorf("told after %v", took)
	}
	y.eventually("the cause is "+cause, func() bool { return y.failure().Cause() == cause })
}

// mended wants a commit to be written, and the failure to be over.
func (y *journalBundle) mended(c *Claim, done <-chan error) {
	y.tb.Helper()
	y.must(y.outcome(done))
	if f := y.failure(); f.Failing() {
		y.tb.Errorf("it fails still: %v", f.Err)
	}
	if state := y.runState(c); state != "running" {
		y.tb.Errorf("the run is %s", state)
	}
}

// refuse makes the database refuse rows of tasks with an error.
func (y *journalBundle) refuse(code, when string) (mend func()) {
	y.tb.Helper()
	y.exec(fmt.Sprintf(`CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '%s'; END $$`, code))
	y.exec("CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON oarlock.tasks FOR EACH ROW " + when + " EXECUTE FUNCTION public.refuse()")
	return func() { y.exec("DROP TRIGGER refuse ON oarlock.tasks") }
}

// No error about the server, the schema or the login fails a run. The run's records are written once the error is mended.
func TestJournal_TellsWhyNothingIsWrittenAndGoesOnOnceItIsMended(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	for code, cause := range map[string]string{
		"53100": "disk full", "53200": "out of memory", "53300": "too many connections", "25006": "read-only", "55P03": "locked",
		"57014": "a statement timed out or was canceled", "57P01": "the server shuts down", "57P03": "the server takes no connections",
		"42501": "permission denied", "42P01": "not the schema it should be", "40001": "serialization failure", "40P01": "deadlock",
		"58030": "input or output error", "XX001": "internal error", "P0001": "refused",
	} {
		c := y.claim()
		mend := y.refuse(code, "")
		done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
		y.failing(cause + ", " + code)
		mend()
		y.mended(c, done)
	}
}

func TestJournal_TellsOfAPrivilegeThatIsMissing(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	y.exec("REVOKE INSERT ON oarlock.tasks FROM oarlock_worker")
	done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
	y.failing("permission denied, 42501")
	y.exec("GRANT INSERT ON oarlock.tasks TO oarlock_worker")
	y.mended(c, done)
}

func TestJournal_TellsOfAServerThatTakesNoConnection(t *testing.T) {
	t.Parallel()
	y, proxy := through(t)
	c := y.claim()
	y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
	proxy.Refuse(true)
	proxy.CutAll()
	done := y.later(batch(c, taskAt(0, 2, dagrun.TaskRunning)))
	y.eventually("it tells of it", func() bool { return y.failure().Failing() })
	proxy.Refuse(false)
	y.mended(c, done)
}

func TestJournal_TellsOfAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	y, proxy := through(t)
	y.journal, y.held, y.lost = y.open(must(proxy.URL(y.url)), 0) // with the timeout of a worker
	c := y.claim()
	y.must(y.commit(t.Context(), batch(c, taskAt(0, 1, dagrun.TaskRunning))))
	hold := proxy.Inject(netfault.Fault{When: flushBindAny, Do: netfault.Hold})
	defer hold.Release()
	done := y.later(batch(c, taskAt(0, 2, dagrun.TaskRunning)))
	hold.MustFire(t)
	y.failing("no answer")
	hold.Release()
	y.mended(c, done)
}

// flushBindAny matches the start of every kind of flush.
func flushBindAny(m netfault.Message) bool {
	return m.From == netfault.Client && m.Type == 'B' && strings.Contains(string(m.Body), "oarlock_flush")
}

func TestJournal_NamesWhoHoldsATable(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	tx := y.begin()
	y.in(tx, "LOCK oarlock.tasks IN ACCESS EXCLUSIVE MODE")
	done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
	y.failing("locked, 55P03")
	holder := fmt.Sprintf("process %d of user ", tx.Conn().PgConn().PID())
	y.eventually("it names who", func() bool {
		f := y.failure()
		return f.Failing() && strings.Contains(f.Err.Error(), holder) && strings.Contains(f.Err.Error(), "holds tasks")
	})
	y.end(tx)
	y.mended(c, done)
}

// A transaction that holds the row of one run is no fault of the database: only that run waits, and the journal reports the
// holder.
func TestJournal_NamesWhoHoldsARow(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c, other := y.claim(), y.claim()
	tx := y.begin()
	y.in(tx, "SELECT FROM oarlock.runs WHERE run_id = $1 FOR UPDATE", c.Run)
	done := y.later(paused(c))
	holder := fmt.Sprintf("process %d of user ", tx.Conn().PgConn().PID())
	aside := func() Aside {
		y.health.mu.Lock()
		defer y.health.mu.Unlock()
		return y.health.aside
	}
	y.eventually("it names who", func() bool { return strings.HasPrefix(aside().Holder, holder) })
	if a := aside(); a.Run != c.Run || a.Runs != 1 || a.Since.IsZero() || y.failure().Failing() {
		t.Errorf("aside %+v, failure %+v", a, y.failure())
	}
	y.must(y.commit(t.Context(), batch(other, taskAt(0, 1, dagrun.TaskRunning))))
	y.end(tx)
	y.must(y.outcome(done))
	if a := aside(); a.Runs != 0 {
		t.Errorf("aside %+v", a)
	}
}

// An error of an unclear kind is the record's fault if the database takes other records.
func TestJournal_FindsTheRecordThatIsAtFault(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	bad, good := y.claim(), y.claim()
	defer y.refuse("P0001", fmt.Sprintf("WHEN (NEW.run_id = %d)", bad.Run))()
	block := y.begin()
	y.in(block, "SELECT FROM oarlock.fences FOR NO KEY UPDATE")
	first := y.later(batch(y.claim(), taskAt(0, 1, dagrun.TaskRunning)))
	y.blocked(block, appName(y.worker))
	one, two := y.later(batch(bad, taskAt(0, 1, dagrun.TaskRunning))), y.later(batch(good, taskAt(0, 1, dagrun.TaskRunning)))
	y.eventually("both wait for one flush", func() bool { return len(y.queue) == 2 })
	y.end(block)
	y.must(y.outcome(first))
	if err := y.outcome(one); err == nil || errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	y.must(y.outcome(two))
	if y.failure().Failing() {
		t.Error("the database is not at fault")
	}
}

// While there is nothing to write, the journal finds out by itself that the database takes records again.
func TestJournal_ProbesWhileNothingIsToBeWritten(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	mend := y.refuse("53100", "")
	done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
	y.failing("disk full, 53100")
	y.held.forfeit(c)
	if err := y.outcome(done); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	if !y.failure().Failing() {
		t.Error("it forgot the failure though no record was taken")
	}
	mend()
	y.eventually("it is over", func() bool { return !y.failure().Failing() })
	if rows := get[int](y, "SELECT count(*) FROM oarlock.tasks"); rows != 0 {
		t.Errorf("a trial left %d rows", rows)
	}
}

// A commit that is set aside comes due again and again. It must not put off the probe that notices the end of a failure.
func TestJournal_ProbesWhileARunIsHeldBySomebody(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	mend := y.refuse("53100", "")
	done := y.later(parking(c, taskAt(0, 1, dagrun.TaskRunning)))
	y.failing("disk full, 53100")
	holder := y.begin()
	y.in(holder, "SELECT FROM oarlock.runs WHERE run_id = $1 FOR UPDATE", c.Run)
	mend()
	y.eventually("it is over though the run is still held", func() bool { return !y.failure().Failing() })
	y.end(holder)
	y.must(y.outcome(done))
}
