package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

// answerPatience is how long a flush may be under way before it counts as one that fails. It times out later.
const answerPatience = 3 * time.Second

var (
	tryRecordsSQL = sql.Named("queue/try_records")

	errNoAnswer = errors.New("the server does not answer a flush")
	errUndo     = errors.New("nothing of a trial stays")
)

// Failure tells since when the database takes no records of a session, and why.
type Failure struct {
	Since time.Time // when the first of the tries began that failed; zero: the last one was taken
	Err   error     // of the last try
}

// Failing says whether there is one.
func (f Failure) Failing() bool { return !f.Since.IsZero() }

// Cause is the kind of error, for people: it shows nothing of a record, a login or a host.
func (f Failure) Cause() string {
	if !f.Failing() {
		return ""
	}
	return causeOf(f.Err)
}

// causes by SQLSTATE, and by its class.
var causes = map[string]string{
	"53100": "disk full", "53200": "out of memory", "53300": "too many connections", "53": "out of resources",
	"25006": "read-only", "55P03": "locked", "55": "in use", "57014": "a statement timed out or was canceled",
	"57P01": "the server shuts down", "57P02": "the server crashed", "57P03": "the server takes no connections", "57": "ended by an operator",
	"42501": "permission denied", "42": "not the schema it should be", "28": "login refused", "3D": "no such database",
	"40001": "serialization failure", "40P01": "deadlock", "40": "rolled back", "58030": "input or output error", "58": "system error",
	"XX": "internal error", "08": "connection lost",
}

func causeOf(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		text, known := causes[pg.Code]
		if !known {
			text, known = causes[pg.Code[:min(2, len(pg.Code))]]
		}
		if !known {
			text = "refused"
		}
		return fmt.Sprintf("%s, %s", text, pg.Code)
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case errors.Is(err, errNoAnswer) || errors.Is(err, context.DeadlineExceeded) && !connecting:
		return "no answer"
	case pglink.Classify(err) == pglink.NotExecuted:
		return "no connection"
	case pglink.Classify(err) == pglink.SessionLost:
		return "connection lost"
	}
	return "error"
}

// Aside tells of records that wait for the row of their run, which a transaction of somebody else holds.
type Aside struct {
	Since  time.Time // of those that wait longest; zero: none wait
	Run    RunID     // theirs
	Runs   int       // how many wait
	Holder string    // of that row, as far as the server tells
}

// health is what a journal lets others know of its tries.
type health struct {
	mu    sync.Mutex
	fails Failure
	taken int64 // flushes
	aside Aside
}

// note takes in how a try ended that began at a moment. An error about a record says nothing about the database.
func (h *health) note(began time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.fails = Failure{}
	case isPoison(err):
	case h.fails.Failing():
		h.fails.Err = err
	default:
		h.fails = Failure{Since: began, Err: err}
	}
}

// flushed counts a flush that was taken.
func (h *health) flushed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken++
}

func (h *health) failure() Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fails
}

func (h *health) failing() bool { return h.failure().Failing() }

func (h *health) setAside(a Aside) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.aside = a
}

// failure also counts a try that is under way for long.
func (j *journal) failure() Failure {
	f := j.health.failure()
	if took := j.pulse.at(); !f.Failing() && took >= answerPatience {
		return Failure{Since: time.Now().Add(-took), Err: errNoAnswer}
	}
	return f
}

// OfDatabase says whether an error is about the server, its schema, or what this login may: never about a run. What got it is
// tried again, for somebody may mend that.
func OfDatabase(err error) bool {
	if isPoison(err) || errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrClosed) {
		return false
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if ok && slices.Contains([]string{"25", "28", "3D", "42", "53", "55", "57", "58", "F0"}, pg.Code[:min(2, len(pg.Code))]) {
		return true
	}
	return pglink.Classify(err) != pglink.Permanent
}

// tryRecords writes what a flush writes, and takes it back.
func tryRecords(ctx context.Context, conn *pgx.Conn) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, tryRecordsSQL); err != nil {
			return err
		}
		return errUndo
	})
	if errors.Is(err, errUndo) {
		return nil
	}
	return err
}

// TryRecords says why the database would not take the records of a worker now, over a connection of its own. It leaves nothing
// behind. That a trial is taken does not prove that all records will be.
func (s *Store) TryRecords(ctx context.Context) error {
	config := s.connConfig("oarlock trial")
	pglink.AsFlush(config)
	l := s.newLink(config)
	err := l.use(ctx, tryRecords)
	if err := errors.Join(err, l.close(ctx)); err != nil {
		return fmt.Errorf("try whether records are taken: %w", err)
	}
	return nil
}

// probe finds out whether the database takes records again, where there is none to be written.
func (j *journal) probe() {
	began := time.Now()
	_, err := j.try(tryRecords)
	j.health.note(began, err)
	j.probeAt = time.Time{}
}

// nextProbe fires when it is time to probe; never, while flushes are taken. Entries that are set aside come due again and again
// meanwhile, and put no probe off.
func (j *journal) nextProbe() <-chan time.Time {
	if !j.health.failing() {
		j.probeAt = time.Time{}
		return nil
	}
	if j.probeAt.IsZero() {
		j.probeAt = time.Now().Add(longestJournalPause)
	}
	return time.After(time.Until(j.probeAt))
}
