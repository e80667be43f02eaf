package queue

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// pollReply is what a poll brings: claims, and what it saw on the way.
type pollReply struct {
	facts  pollFacts
	claims []*Claim
}

type pollFacts struct {
	terms   string
	seen    snapshot
	fenced  bool
	limited []int         // lanes with a limit that have something due
	top     *int          // the highest priority of a run that is due and ranks above all tasks that wait
	blocked []int         // lanes at whose floor a run stands that may not begin, because its DAG is paused or limited
	back    map[int]place // by lane, below which nothing came back since the last poll
	passed  map[int]place // lanes where a due run stands before the first that was claimed
}

// read takes all rows. The facts come with one of them; each but perhaps that one is a claim.
func (r *pollReply) read(rows pgx.Rows, l *lanes) (err error) {
	defer rows.Close()
	var f factsRow
	var c claimRow
	all := append(f.targets(), c.targets()...)
	facts := len(all) - len(c.targets())
	all = append(all, nil) // the claim's place in the statement
	for rows.Next() {
		if err := rows.Scan(all...); err != nil {
			return err
		}
		if f.terms != nil {
			if r.facts, err = f.facts(); err != nil {
				return err
			}
			f.terms = nil
			clear(all[:facts]) // they are not in any other row
		}
		if c.run != 0 {
			r.claims = append(r.claims, c.claim(l))
		}
	}
	return rows.Err()
}

type factsRow struct {
	terms, xid, snapshot *string
	now                  *time.Time
	fenced               *bool
	limited              []int
	top                  *int
	blocked              []int // lanes
	back                 []int // lanes
	backAt               []time.Time
	backRuns             []RunID
	stuck                []int // lanes
	stuckAt              []time.Time
	stuckRuns            []RunID
}

func (f *factsRow) targets() []any {
	return []any{
		&f.terms, &f.now, &f.xid, &f.snapshot, &f.fenced, &f.limited, &f.top, &f.blocked, &f.back, &f.backAt, &f.backRuns, &f.stuck, &f.stuckAt, &f.stuckRuns,
	}
}

func (f *factsRow) facts() (pollFacts, error) {
	seen, err := parseSnapshot(*f.xid, *f.snapshot, *f.now)
	return pollFacts{
		terms: *f.terms, seen: seen, fenced: or(f.fenced), limited: f.limited, top: f.top, blocked: f.blocked,
		back: placesOf(f.back, f.backAt, f.backRuns), passed: placesOf(f.stuck, f.stuckAt, f.stuckRuns),
	}, err
}

// placesOf are places by lane.
func placesOf(lanes []int, ats []time.Time, runs []RunID) map[int]place {
	places := make(map[int]place, len(lanes))
	for i, id := range lanes {
		places[id] = place{ats[i], runs[i]}
	}
	return places
}

// or is what a pointer points at, or nothing.
func or[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// claimRow is a claimed run: its columns are those of the view claims. All are null beside facts without a claim. Rows are scanned
// into it one after the other, so what is null must become nothing again: thousands of claims a second are not to be pointers to
// each of their columns.
type claimRow struct {
	run, inbox, dag, parent, root, left                               zeronull.Int8
	epoch, version, lane, losses, depth, generation, tolerated, begun zeronull.Int4
	uid, id                                                           zeronull.UUID
	params, labels, precomputed, counts                               []byte
	runAt, logicalAt, previousAt, createdAt, startedAt, deadline      zeronull.Timestamptz
	name, trigger, submitter, key, trace, reason, ending, by, text, p zeronull.Text
	schedule                                                          zeronull.Text
}

func (c *claimRow) targets() []any {
	return []any{
		&c.name, &c.begun, &c.run, &c.uid, &c.id, &c.epoch, &c.inbox, &c.dag, &c.version, &c.lane, &c.losses, &c.params, &c.labels, &c.precomputed,
		&c.runAt, &c.logicalAt, &c.createdAt, &c.trigger, &c.submitter, &c.key, &c.trace, &c.parent, &c.root, &c.depth, &c.reason,
		&c.generation, &c.ending, &c.by, &c.text, &c.p, &c.startedAt, &c.deadline, &c.left, &c.tolerated, &c.counts,
		&c.schedule, &c.previousAt,
		nil, nil, nil, // state, worker and wake-up time: what every claim has
	}
}

// claim is the claim of a row, also of one that cannot be read.
func (c *claimRow) claim(l *lanes) *Claim {
	claim := NewClaim(RunID(c.run), uuid.UUID(c.id))
	claim.UID, claim.Epoch, claim.Inbox, claim.Losses = uuid.UUID(c.uid), int(c.epoch), int64(c.inbox), int(c.losses)
	claim.DAG, claim.DAGID, claim.Version = string(c.name), int64(c.dag), int(c.version)
	claim.Lane, claim.Begun = int(c.lane), c.begun != 0
	claim.Queue, claim.Priority = l.of(claim.Lane)
	claim.Params, claim.Labels, claim.Precomputed = c.params, c.labels, c.precomputed
	claim.RunAt, claim.LogicalAt, claim.CreatedAt = time.Time(c.runAt), time.Time(c.logicalAt), time.Time(c.createdAt)
	claim.Trigger, claim.SubmittedBy, claim.Key, claim.Traceparent = string(c.trigger), string(c.submitter), string(c.key), string(c.trace)
	claim.Schedule, claim.PreviousLogicalAt = string(c.schedule), time.Time(c.previousAt)
	claim.Parent, claim.Root, claim.Depth = RunID(c.parent), RunID(c.root), int(c.depth)
	claim.Row, claim.unreadable = c.row()
	return claim
}

// row is the run's own row as the last drive left it.
func (c *claimRow) row() (dagrun.RunRecord, error) {
	r := dagrun.RunRecord{
		State: dagrun.RunQueued, Reason: string(c.reason), Generation: int(c.generation), EndingBy: string(c.by), EndingText: string(c.text),
		PausedBy: string(c.p), StartedAt: instantOf(c.startedAt), Deadline: instantOf(c.deadline), Left: dagrun.Duration(c.left), Tolerated: int(c.tolerated),
	}
	var err error
	if r.Ending, err = decodeEnding(string(c.ending)); err != nil {
		return r, err
	}
	r.Counts, err = decodeCounts(c.counts)
	return r, err
}

// instant is a stored moment as the core counts: nothing is 0.
func instant(t *time.Time) dagrun.Time {
	if t == nil {
		return 0
	}
	return dagrun.Time(t.UnixMilli())
}

func instantOf(t zeronull.Timestamptz) dagrun.Time {
	if time.Time(t).IsZero() {
		return 0
	}
	return dagrun.Time(time.Time(t).UnixMilli())
}
