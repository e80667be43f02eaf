package queue

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// claimReply is what a statement that claims brings.
type claimReply struct {
	fenced bool // the worker's session may still claim
	now    time.Time
	limits bool // the worker serves lanes behind limits
	claims []*Claim
}

// read takes all rows: each is a claim, but for the only one where there is none.
func (r *claimReply) read(rows pgx.Rows) error {
	defer rows.Close()
	var c claimRow
	all := append([]any{&r.fenced, &r.now, &r.limits}, c.targets()...)
	for rows.Next() {
		if err := rows.Scan(all...); err != nil {
			return err
		}
		if c.run != 0 {
			r.claims = append(r.claims, c.claim())
		}
	}
	return rows.Err()
}

// or is what a pointer points at, or nothing.
func or[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// claimRow is a claimed run: its columns are those of the view claims. All are null where nothing was claimed. Rows are scanned
// into it one after the other, so what is null must become nothing again: thousands of claims a second are not to be pointers to
// each of their columns.
type claimRow struct {
	run, inbox, dag, parent, root, left                                         zeronull.Int8
	epoch, version, lane, priority, losses, depth, generation, tolerated, stage zeronull.Int4
	uid, id                                                                     zeronull.UUID
	params, labels, precomputed, counts                                         []byte
	runAt, readyAt, logicalAt, previousAt, createdAt, startedAt, deadline       zeronull.Timestamptz
	name, queue, trigger, submitter, key, trace, reason, ending, by, text, p    zeronull.Text
	schedule                                                                    zeronull.Text
}

func (c *claimRow) targets() []any {
	return []any{
		&c.name, &c.queue, &c.priority, &c.run, &c.uid, &c.id, &c.epoch, &c.inbox, &c.dag, &c.version, &c.lane, &c.losses, &c.params, &c.labels, &c.precomputed,
		&c.runAt, &c.logicalAt, &c.createdAt, &c.trigger, &c.submitter, &c.key, &c.trace, &c.parent, &c.root, &c.depth, &c.reason,
		&c.generation, &c.ending, &c.by, &c.text, &c.p, &c.startedAt, &c.deadline, &c.left, &c.tolerated, &c.counts,
		&c.schedule, &c.previousAt, &c.stage, &c.readyAt,
		nil, nil, nil, // state, worker and wake-up time: what every claim has
	}
}

// claim is the claim of a row, also of one that cannot be read.
func (c *claimRow) claim() *Claim {
	claim := NewClaim(RunID(c.run), uuid.UUID(c.id))
	claim.UID, claim.Epoch, claim.Inbox, claim.Losses = uuid.UUID(c.uid), int(c.epoch), int64(c.inbox), int(c.losses)
	claim.DAG, claim.DAGID, claim.Version = string(c.name), int64(c.dag), int(c.version)
	claim.Lane, claim.Queue, claim.Priority = int(c.lane), string(c.queue), int(c.priority)
	claim.stage, claim.readyAt, claim.Begun = int(c.stage), time.Time(c.readyAt), c.stage < stageNew
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
