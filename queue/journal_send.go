package queue

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	failRun    = sql.Named("queue/fail_run")
	inboxMoved = sql.Named("queue/inbox_moved")
)

// Pauses between tries while the database is away or too busy. The number of tries has no limit: the end of the lease ends them.
const (
	firstJournalPause   = 5 * time.Millisecond
	longestJournalPause = time.Second
)

// reasonBytes bounds the reason of a run that is ended because the database cannot take its records.
const reasonBytes = 500

// deliver writes parts of different claims, and passes the outcome of each to its caller. It sends them in one flush. If the
// flush is refused because of a record, or for an unclear reason, it sends the parts in smaller flushes, until only the faulty
// part is left. If the error is clearly about that part's record, its run is ended as failed, and the caller gets ErrRefused. If
// the reason is unclear, deliver sends the part again until it is written, or until the database takes other records. In the
// second case the caller gets the error.
func (j *journal) deliver(parts []*flushPart) {
	began := time.Now()
	err := j.send(parts)
	for isStrange(err) && len(parts) == 1 && !j.takesOthers(began, err) {
		err = j.send(parts)
	}
	if isPoison(err) || isStrange(err) && len(parts) > 1 {
		j.isolate(parts, err)
		return
	}
	for _, p := range parts {
		if !p.settled {
			p.settle(err)
		}
		j.conclude(p)
	}
}

// isolate takes parts of a flush that failed with err and has written nothing. A single part is the faulty one: isolate ends its
// run as failed, and its caller gets ErrRefused. Several parts are delivered again in two halves.
func (j *journal) isolate(parts []*flushPart, err error) {
	if len(parts) == 1 {
		j.failRun(parts[0], internalReason(err), fmt.Errorf("%w: %w", ErrRefused, err))
		j.conclude(parts[0])
		return
	}
	half := len(parts) / 2
	j.deliver(parts[:half])
	j.deliver(parts[half:])
}

// isStrange reports whether an error leaves open where the fault is: in a record or in the database. It is false for nil.
func isStrange(err error) bool {
	return err != nil && !isPoison(err) && !errors.Is(err, ErrClosed) && !OfDatabase(err)
}

// takesOthers tries whether the database takes other records than the one that it refused with err. It returns true if so: the
// fault is in that record. It returns false if not, but only after it has waited longestJournalPause, or until the journal gives
// up. It notes in j.health the success, or err as a failure since began.
func (j *journal) takesOthers(began time.Time, err error) bool {
	_, refused := j.try(tryRecords)
	if refused == nil {
		j.health.note(began, nil)
		return true
	}
	j.health.note(began, err)
	select {
	case <-time.After(longestJournalPause):
	case <-j.ctx.Done():
	}
	return false
}

// isPoison reports whether an error is about the content of a record, so that it is useless to send the record again. By the
// class of its SQLSTATE: 21 means that a row came twice, 22 and 23 that a value is not allowed, 54 that it is too large. Of our
// own codes, OA010 and OA011 mean that the row has finished or belongs to a later drive.
func isPoison(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	return slices.Contains([]string{"21", "22", "23", "54"}, pg.Code[:min(2, len(pg.Code))]) || pg.Code == "OA010" || pg.Code == "OA011"
}

// failRun ends the run of a part as failed, with reason, and settles the part. Once the run has ended, the part is settled with
// then, which may be nil. If the claim was gone before, the outcome is ErrLeaseLost, and if the statement fails, its error. If
// another connection holds the run's row, the outcome is errAside. failRun does not pass the outcome on: conclude does.
func (j *journal) failRun(p *flushPart, reason string, then error) {
	var done bool
	c := p.commit.batch.Claim
	err := j.persist([]*flushPart{p}, func(ctx context.Context, conn *pgx.Conn) error {
		if len(j.open()) == 0 {
			return errNothingLeft
		}
		return conn.QueryRow(ctx, failRun, pgx.StrictNamedArgs{
			"run": c.Run, "claim": c.ID, "epoch": c.Epoch, "reason": reason,
		}).Scan(&done)
	})
	switch {
	case p.settled: // it was set aside, or settled when a new connection verified it
	case err != nil:
		p.settle(err)
	case !done:
		p.settle(ErrLeaseLost)
	default:
		p.settle(then)
	}
}

// internalReason returns "internal: " and the error as the reason of a run that is ended because of it. Of an error of the server
// it keeps only the message and the code, because the message shows at most one value of a record.
func internalReason(cause error) string {
	text := cause.Error()
	if pg, ok := errors.AsType[*pgconn.PgError](cause); ok {
		text = fmt.Sprintf("the database refuses a record: %s (%s)", pg.Message, pg.Code)
	}
	return storableReason("internal: " + text)
}

// storableReason returns text as valid UTF-8 without null bytes, cut to reasonBytes. If nothing is left, it returns "failed by
// its worker".
func storableReason(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	return cmp.Or(strings.ToValidUTF8(text[:min(len(text), reasonBytes)], ""), "failed by its worker")
}

// errNothingLeft ends a try that found nothing left to send.
var errNothingLeft = errors.New("nothing is left to be written")

// send writes parts in one flush, and repeats it until the outcome is known. It blocks while the database is away. If it returns
// nil, all parts are settled. If it returns an error, the parts that are not settled were not written, except that with
// ErrUnknown they may have been.
func (j *journal) send(parts []*flushPart) error {
	var got reply
	err := j.persist(parts, func(ctx context.Context, conn *pgx.Conn) (err error) {
		open := j.open()
		if len(open) == 0 {
			return errNothingLeft
		}
		if err := j.prepare(ctx, conn); err != nil {
			return err
		}
		j.flush.fill(open)
		start := time.Now()
		got, err = j.exec(ctx, conn)
		j.meter(len(open), start, err)
		if err == nil {
			err = j.judge(ctx, conn, open, got)
		}
		return err
	})
	return err
}

// open returns the parts in flight that have no known outcome. It settles parts if their claim was lost meanwhile: the worker that
// took such a claim first waited for our fence, so this flush cannot write the part any more.
func (j *journal) open() []*flushPart {
	var open []*flushPart
	for _, p := range j.flying {
		if !p.settled && j.held.of(p.commit.batch.Claim) == nil {
			p.settle(ErrLeaseLost)
		}
		if !p.settled {
			open = append(open, p)
		}
	}
	return open
}

// reply is the answer to a flush.
type reply struct {
	fenced bool
	hits   []bool  // by place: the part was written
	logs   []RunID // runs with a reader that follows their logs
}

func (j *journal) exec(ctx context.Context, conn *pgx.Conn) (reply, error) {
	result := conn.PgConn().ExecPrepared(ctx, j.flush.text.name, j.flush.params, j.flush.formats, j.flush.formats).Read()
	if result.Err != nil {
		return reply{}, result.Err
	}
	row := result.Rows[0]
	return reply{fenced: row[0][0] == 1, hits: bools(row[1]), logs: runsOf(row[followedColumn])}, nil
}

// bools decodes an array of booleans without nulls from Postgres' binary form. It returns nil for null and for an empty array.
func bools(array []byte) []bool {
	var list []bool
	for at := arrayHeaderBytes + 4; at < len(array); at += 5 {
		list = append(list, array[at] == 1)
	}
	return list
}

// followedColumn is the column of reply.logs in the answer to a flush.
const followedColumn = 2

// runsOf decodes an array of run numbers without nulls from Postgres' binary form. It returns nil for null and for an empty
// array.
func runsOf(array []byte) []RunID {
	var list []RunID
	for at := arrayHeaderBytes + 4; at < len(array); at += 12 {
		list = append(list, RunID(binary.BigEndian.Uint64(array[at:])))
	}
	return list
}

// prepare makes conn ready for flushes; if it is ready, prepare does nothing. It uses conn.Prepare, which remembers the prepared
// names: if the server refuses one of the statements, the names of those before it are taken already, and the next try must not
// prepare them again.
func (j *journal) prepare(ctx context.Context, conn *pgx.Conn) error {
	if j.prepared == conn {
		return nil
	}
	groups := j.flush.groups()
	oids := make([]any, len(groups))
	for i, g := range groups {
		oids[i] = &g.elem
	}
	if err := conn.QueryRow(ctx, flushTypes).Scan(oids...); err != nil {
		return fmt.Errorf("prepare a flush: %w", err)
	}
	for _, text := range flushTexts {
		if _, err := conn.Prepare(ctx, text.name, text.sql); err != nil {
			return fmt.Errorf("prepare a flush: %w", err)
		}
	}
	j.prepared = conn
	return nil
}

// judge settles parts by got, the answer to their flush. A part that was written gets nil. A part that gives its claim back and
// was not written gets ErrInboxMoved if its run has a new control. Any other part that was not written gets ErrLeaseLost. Without
// a fence the session is lost, with all claims. If judge returns an error, some parts are not settled, and must be sent again.
func (j *journal) judge(ctx context.Context, conn *pgx.Conn, parts []*flushPart, got reply) error {
	if !got.fenced {
		j.loseSession(parts)
		return nil
	}
	j.held.follow(got.logs)
	var missed []*flushPart
	for i, p := range parts {
		switch {
		case got.hits[i]:
			p.settle(nil)
		case p.last && p.commit.compares():
			missed = append(missed, p)
		default:
			p.settle(ErrLeaseLost)
		}
	}
	if len(missed) == 0 {
		return nil
	}
	return j.explain(ctx, conn, missed)
}

func (j *journal) loseSession(parts []*flushPart) {
	for _, p := range parts {
		p.settle(ErrLeaseLost)
	}
	j.held.forfeitAll()
	j.lost()
}

// explain settles each missed part: with ErrInboxMoved if its claim is still there, so that the run's inbox has moved, and else
// with ErrLeaseLost. If the query fails, it returns the error and settles none. The flush is then sent again, which is safe
// because the missed parts wrote nothing.
func (j *journal) explain(ctx context.Context, conn *pgx.Conn, missed []*flushPart) error {
	runs, claims := make([]int64, len(missed)), make([]uuid.UUID, len(missed))
	for i, p := range missed {
		runs[i], claims[i] = int64(p.commit.batch.Claim.Run), p.commit.batch.Claim.ID
	}
	rows, err := conn.Query(ctx, inboxMoved, pgx.StrictNamedArgs{"runs": runs, "claims": claims})
	if err != nil {
		return err
	}
	ours, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return err
	}
	for i, p := range missed {
		if slices.Contains(ours, i+1) {
			p.settle(ErrInboxMoved)
		} else {
			p.settle(ErrLeaseLost)
		}
	}
	return nil
}

// persist runs do on the journal's connection until its outcome is known, and blocks that long. j.flying is parts meanwhile. It
// returns nil if do has succeeded, or if all parts are settled, so that nothing is left to do. It returns an error of the server
// if do was refused and is useless to repeat. While the database is away, it tries again until the journal is closed. Then it
// returns an error that is ErrClosed and ErrUnknown.
func (j *journal) persist(parts []*flushPart, do func(context.Context, *pgx.Conn) error) error {
	j.flying = parts
	defer func() { j.flying = nil }()
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstJournalPause, longestJournalPause
	for {
		start := time.Now()
		asked, err := j.try(do)
		if errors.Is(err, errNothingLeft) {
			return nil // this try says nothing about what the database takes
		}
		if !asked {
			j.meter(len(parts), start, err) // without this, the Meter would not hear why nothing is written
		}
		if err == nil {
			j.health.note(start, nil)
			j.health.flushed()
			return nil
		}
		if asked && isFinal(err) {
			return err
		}
		if isLockTimeout(err) && j.partFrom(parts) {
			if len(j.open()) == 0 {
				return nil
			}
			continue
		}
		j.health.note(start, j.withHolder(parts, err))
		select {
		case <-time.After(pause.NextBackOff()):
		case <-j.ctx.Done():
			return fmt.Errorf("%w: %w: %w", ErrClosed, ErrUnknown, err)
		}
		if len(j.open()) == 0 {
			return nil
		}
	}
}

// try runs do once, for at most j.timeout. asked reports whether do was called. If it was not, the error is about the connection,
// and says nothing about the outcome of an earlier try.
func (j *journal) try(do func(context.Context, *pgx.Conn) error) (asked bool, err error) {
	j.tries.Add(1)
	j.pulse.beat()
	ctx, cancel := context.WithTimeout(j.ctx, j.timeout)
	defer cancel()
	err = j.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		asked = true
		return do(ctx, conn)
	})
	if err == nil {
		j.pulse.beat() // before the drivers get the outcome, so that they see no flush under way afterwards
	}
	return asked, err
}

// isFinal reports whether persist must return err instead of sending the same again: err is about a record, or may be, and a new
// connection would not help.
func isFinal(err error) bool {
	return (isPoison(err) || isStrange(err)) && !stale(err)
}

// stale reports whether only a new connection can help, because a prepared statement is gone or no longer fits the tables.
func stale(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "26000" || pg.Code == "0A000")
}

var verifyClaims = sql.Named("queue/verify")

// takeUp prepares every connection but the first for the journal. It makes sure that no flush on the former connection can still
// take effect. Then it verifies all claims, because the new connection may lead to another server. After an error the connection
// must not be used.
func (j *journal) takeUp(ctx context.Context, conn *pgx.Conn) error {
	if err := j.conn.endFormer(ctx, conn); err != nil {
		return err
	}
	return j.verify(ctx, conn)
}

// claimed is the database's view of a claim.
type claimed struct {
	N          int
	Ours       bool
	Free       bool // no worker has the run
	Epoch      int
	Generation int
	State      string
	Seq        int64 // highest number of a record in the claim's epoch
	Fenced     bool
}

// verify reads the database's view of all held claims, and reconciles each with it. That forfeits claims that are gone, and may
// settle parts in flight.
func (j *journal) verify(ctx context.Context, conn *pgx.Conn) error {
	all := j.held.all()
	runs, claims, epochs := make([]int64, len(all)), make([]uuid.UUID, len(all)), make([]int, len(all))
	for i, held := range all {
		runs[i], claims[i], epochs[i] = int64(held.claim.Run), held.claim.ID, held.claim.Epoch
	}
	rows, err := conn.Query(ctx, verifyClaims, pgx.StrictNamedArgs{"worker": j.worker, "runs": runs, "claims": claims, "epochs": epochs})
	if err != nil {
		return fmt.Errorf("verify claims: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[claimed])
	if err != nil {
		return fmt.Errorf("verify claims: %w", err)
	}
	flying := map[*heldClaim]*flushPart{}
	for _, p := range j.flying {
		flying[p.commit.held] = p
	}
	for i := range found {
		j.reconcile(all[found[i].N-1], flying[all[found[i].N-1]], &found[i])
	}
	return nil
}

// reconcile compares a held claim with db, the database's view of it. It forfeits the claim if the database no longer holds it
// for this worker, or lacks acknowledged records of it. p is the part of the claim in flight, with an unknown outcome; nil: there
// is none. If db shows that p was written and gave the claim back, p is settled with nil, and the claim is not forfeited. If the
// claim is forfeited, p is settled with ErrLeaseLost. Otherwise p stays open.
func (j *journal) reconcile(held *heldClaim, p *flushPart, db *claimed) {
	switch {
	case db.Ours && db.Seq >= held.acked:
		// the claim is still ours, and every acknowledged record is there
	case p != nil && !p.settled && p.last && p.commit.ends() && db.shows(p):
		p.settle(nil)
	default:
		j.held.forfeit(held.claim)
		if db.Ours {
			j.doubt() // the database still holds the claim for this worker
		}
		if p != nil && !p.settled {
			p.settle(ErrLeaseLost)
		}
	}
}

// shows reports whether p, a part that gives its claim back, was written after all. While our fence exists, no other worker takes
// a claim away. Only a failover can have lost the claim, and then acknowledged records are missing too.
func (db *claimed) shows(p *flushPart) bool {
	claim := p.commit.batch.Claim
	if v := p.commit.batch.Result; v != nil {
		return db.Epoch >= claim.Epoch && db.Generation > generation(p) || db.Epoch == claim.Epoch && db.State == v.State.String()
	}
	if !db.Fenced {
		return false
	}
	return db.Epoch > claim.Epoch || db.Epoch == claim.Epoch && db.Free && db.Seq >= max(p.commit.held.acked, p.highest())
}

// generation returns the generation of the run that a part ends: from its record of the run, or, if that names none, from the
// run's row at the claim, and 1 if that names none either.
func generation(p *flushPart) int {
	if rec := p.commit.batch.Records.Run; rec != nil && rec.Generation > 0 {
		return rec.Generation
	}
	return max(p.commit.batch.Claim.Row.Generation, 1)
}

// answerPatience is how long a flush may be under way before it counts as failing. Its timeout is later.
const answerPatience = 3 * time.Second

var (
	tryRecordsSQL = sql.Named("queue/try_records")

	errNoAnswer = errors.New("the server does not answer a flush")
	errUndo     = errors.New("nothing of a trial stays")
)

// Failure says since when the database has taken no records of a session, and why.
type Failure struct {
	Since time.Time // start of the first try that failed; zero: the last try did not fail
	Err   error     // of the last try
}

// Failing reports whether tries fail now. The zero Failure does not.
func (f Failure) Failing() bool { return !f.Since.IsZero() }

// Cause names the kind of error, for people. It shows nothing of a record, a login or a host. It returns "" if tries do not fail.
func (f Failure) Cause() string {
	if !f.Failing() {
		return ""
	}
	return causeOf(f.Err)
}

// causes by SQLSTATE, and by SQLSTATE class.
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

// Aside describes records that wait because a transaction of another connection holds the row of their run.
type Aside struct {
	Since  time.Time // since when the first of them has waited; zero: no records wait
	Run    RunID     // run of the records that have waited longest
	Runs   int       // number of runs with records that wait
	Holder string    // connection that holds the row of Run; "": the server does not say
}

// health is what the journal publishes about its tries.
type health struct {
	mu    sync.Mutex
	fails Failure
	taken int64 // flushes written
	aside Aside
}

// note records in h.fails the result of a try that began at began. Success ends a failure. An error begins a failure, or replaces
// the error of the failure that lasts. An error about a record says nothing about the database, so it changes nothing.
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

// flushed counts a flush that was written.
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

// failure returns the current failure. A try that has been under way for answerPatience counts as failing too.
func (j *journal) failure() Failure {
	f := j.health.failure()
	if took := j.pulse.at(); !f.Failing() && took >= answerPatience {
		return Failure{Since: time.Now().Add(-took), Err: errNoAnswer}
	}
	return f
}

// OfDatabase reports whether an error, not nil, is about the connection, the server, its schema or the rights of this login, and
// not about a run. The caller should try again later, because an operator can mend such an error. It returns false for
// ErrLeaseLost and ErrClosed.
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

// tryRecords writes rows as a flush does, and rolls them back. It returns nil if the database took them.
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

// TryRecords returns the error for which the database would not take a worker's records now, or nil. It uses a connection of its
// own, and leaves nothing behind. A trial that succeeds does not prove that the database takes every record.
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

// probe tries whether the database takes records again while there is none to write, and notes the result in j.health. It plans
// no next probe: nextProbe does.
func (j *journal) probe() {
	began := time.Now()
	_, err := j.try(tryRecords)
	j.health.note(began, err)
	j.probeAt = time.Time{}
}

// nextProbe returns a channel that fires when it is time to probe. It is nil while flushes succeed. The first call of a failure
// fixes that time, and later calls keep it, because commits that are set aside come due again and again meanwhile and must not
// put the probe off.
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
