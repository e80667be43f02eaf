package queue

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	condemnRun = sql.Named("queue/condemn")
	inboxMoved = sql.Named("queue/inbox_moved")
)

// Pauses between tries while the database is away or too busy. There is no last try: the lease decides.
const (
	firstJournalPause   = 5 * time.Millisecond
	longestJournalPause = time.Second
)

// reasonBytes bounds the reason of a run that is ended because of its records.
const reasonBytes = 500

// deliver writes pieces of different claims, in one flush if the database takes them all, and tells who waits.
func (j *journal) deliver(pieces []*piece) {
	began := time.Now()
	err := j.send(pieces)
	for isStrange(err) && len(pieces) == 1 && !j.takesOthers(began, err) {
		err = j.send(pieces)
	}
	if isPoison(err) || isStrange(err) && len(pieces) > 1 {
		j.isolate(pieces, err)
		return
	}
	for _, p := range pieces {
		if !p.settled {
			p.settle(err)
		}
		j.conclude(p)
	}
}

// isolate finds whose record it is that the database cannot take. Nothing was written.
func (j *journal) isolate(pieces []*piece, err error) {
	if len(pieces) == 1 {
		j.doom(pieces[0], internalReason(err), fmt.Errorf("%w: %w", ErrRefused, err))
		j.conclude(pieces[0])
		return
	}
	half := len(pieces) / 2
	j.deliver(pieces[:half])
	j.deliver(pieces[half:])
}

// isStrange says whether it cannot be told from an error if the fault is in a record or in the database.
func isStrange(err error) bool {
	return err != nil && !isPoison(err) && !errors.Is(err, ErrClosed) && !OfDatabase(err)
}

// takesOthers finds out whether the fault is in a record: then the database takes others.
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

// isPoison says whether an error is about what a record holds. 54: it is too large for a limit; 21: a row twice.
func isPoison(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	return slices.Contains([]string{"21", "22", "23", "54"}, pg.Code[:min(2, len(pg.Code))]) || pg.Code == "OA010" || pg.Code == "OA011"
}

// doom ends the run of a piece as failed. then is what its driver is told.
func (j *journal) doom(p *piece, reason string, then error) {
	var done bool
	c := p.entry.batch.Claim
	err := j.persist([]*piece{p}, func(ctx context.Context, conn *pgx.Conn) error {
		if len(j.open()) == 0 {
			return errNothingLeft
		}
		return conn.QueryRow(ctx, condemnRun, pgx.StrictNamedArgs{
			"run": c.Run, "claim": c.ID, "epoch": c.Epoch, "reason": reason,
		}).Scan(&done)
	})
	switch {
	case p.settled: // set aside, or while it was verified on a new connection
	case err != nil:
		p.settle(err)
	case !done:
		p.settle(ErrLeaseLost)
	default:
		p.settle(then)
	}
}

// internalReason is the reason of a run that ends because of cause. A server's message shows no more of a record than a value.
func internalReason(cause error) string {
	text := cause.Error()
	if pg, ok := errors.AsType[*pgconn.PgError](cause); ok {
		text = fmt.Sprintf("the database refuses a record: %s (%s)", pg.Message, pg.Code)
	}
	return storableReason("internal: " + text)
}

// storableReason is a reason that the database takes, whatever it holds. It says something.
func storableReason(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	return cmp.Or(strings.ToValidUTF8(text[:min(len(text), reasonBytes)], ""), "condemned")
}

// errNothingLeft ends a try that had nothing to ask the server for.
var errNothingLeft = errors.New("nothing is left to be written")

// send writes pieces in one flush, as often as it takes to know what came of it. Pieces are settled unless it returns an
// error; then those that are not were not written.
func (j *journal) send(pieces []*piece) error {
	var got reply
	err := j.persist(pieces, func(ctx context.Context, conn *pgx.Conn) (err error) {
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

// open are the pieces in flight of which it is not known what came of them. A claim that was lost meanwhile needs no
// flush any more: whoever took it waited for our fence.
func (j *journal) open() []*piece {
	var open []*piece
	for _, p := range j.flying {
		if !p.settled && j.held.of(p.entry.batch.Claim) == nil {
			p.settle(ErrLeaseLost)
		}
		if !p.settled {
			open = append(open, p)
		}
	}
	return open
}

// reply is what a flush answers.
type reply struct {
	fenced bool
	hits   []bool  // by place
	logs   []RunID // whose logs somebody follows
}

func (j *journal) exec(ctx context.Context, conn *pgx.Conn) (reply, error) {
	result := conn.PgConn().ExecPrepared(ctx, j.flush.text.name, j.flush.params, j.flush.formats, j.flush.formats).Read()
	if result.Err != nil {
		return reply{}, result.Err
	}
	row := result.Rows[0]
	return reply{fenced: row[0][0] == 1, hits: bools(row[1]), logs: runsOf(row[followedColumn])}, nil
}

// bools reads an array without nulls in Postgres' binary form.
func bools(array []byte) []bool {
	var list []bool
	for at := arrayHeaderBytes + 4; at < len(array); at += 5 {
		list = append(list, array[at] == 1)
	}
	return list
}

// followedColumn of a flush's answer.
const followedColumn = 2

// runsOf reads an array without nulls in Postgres' binary form; null is an empty one.
func runsOf(array []byte) []RunID {
	var list []RunID
	for at := arrayHeaderBytes + 4; at < len(array); at += 12 {
		list = append(list, RunID(binary.BigEndian.Uint64(array[at:])))
	}
	return list
}

// prepare makes a new connection ready for flushes. The connection keeps account of what is prepared, because a refusal in
// the midst of it leaves the statements before it prepared, and their names are taken.
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

// judge settles pieces by the answer to their flush.
func (j *journal) judge(ctx context.Context, conn *pgx.Conn, pieces []*piece, got reply) error {
	if !got.fenced {
		j.loseSession(pieces)
		return nil
	}
	j.held.follow(got.logs)
	var missed []*piece
	for i, p := range pieces {
		switch {
		case got.hits[i]:
			p.settle(nil)
		case p.last && p.entry.compares():
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

func (j *journal) loseSession(pieces []*piece) {
	for _, p := range pieces {
		p.settle(ErrLeaseLost)
	}
	j.held.forfeitAll()
	j.lost()
}

// explain tells a claim that is gone from an inbox that moved. When this fails the flush is simply sent again, since
// these pieces wrote nothing.
func (j *journal) explain(ctx context.Context, conn *pgx.Conn, missed []*piece) error {
	runs, claims := make([]int64, len(missed)), make([]uuid.UUID, len(missed))
	for i, p := range missed {
		runs[i], claims[i] = int64(p.entry.batch.Claim.Run), p.entry.batch.Claim.ID
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

// persist does something on the journal's connection until its outcome is known: nil, or an error of a server that did
// not do it and never will. While the database is away it goes on trying, until the journal is closed.
func (j *journal) persist(pieces []*piece, do func(context.Context, *pgx.Conn) error) error {
	j.flying = pieces
	defer func() { j.flying = nil }()
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstJournalPause, longestJournalPause
	for {
		start := time.Now()
		asked, err := j.try(do)
		if errors.Is(err, errNothingLeft) {
			return nil // it says nothing of what the database takes
		}
		if !asked {
			j.meter(len(pieces), start, err) // somebody should hear why nothing is written
		}
		if err == nil {
			j.health.note(start, nil)
			j.health.flushed()
			return nil
		}
		if asked && isFinal(err) {
			return err
		}
		if isLockTimeout(err) && j.partFrom(pieces) {
			if len(j.open()) == 0 {
				return nil
			}
			continue
		}
		j.health.note(start, j.withHolder(pieces, err))
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

// try says whether it came to asking the server. Where it did not, an error is about the connection, and says nothing
// about what an earlier one was asked.
func (j *journal) try(do func(context.Context, *pgx.Conn) error) (asked bool, err error) {
	j.tries.Add(1)
	j.pulse.beat()
	ctx, cancel := context.WithTimeout(j.ctx, j.timeout)
	defer cancel()
	err = j.link.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		asked = true
		return do(ctx, conn)
	})
	if err == nil {
		j.pulse.beat() // the answer is there: drivers that are told of it find no flush under way
	}
	return asked, err
}

// isFinal says whether asking the server the same again is of no use, or may be of none.
func isFinal(err error) bool {
	return (isPoison(err) || isStrange(err)) && !stale(err)
}

// stale says whether only a new connection can help: its prepared statement is gone, or fits the tables no more.
func stale(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "26000" || pg.Code == "0A000")
}
