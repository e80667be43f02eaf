package queue

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// pollReply is what a poll brings: claims, and what else is to be done.
type pollReply struct {
	facts  pollFacts
	claims []*Claim
}

type pollFacts struct {
	terms   string
	now     time.Time
	share   int // as many as it might claim
	fenced  bool
	wakes   bool        // parked runs whose time has come
	expires bool        // queued runs whose time has passed
	dead    []uuid.UUID // workers that left fences or runs behind
	limited []int       // lanes with a limit that have something due
	blocked []int       // lanes with runs of a paused DAG at their head
	moved   []int       // lanes whose resets moved, and where to
	resets  []int64
	peers   []uuid.UUID
	beats   []int64
	ttls    []int64
	hungry  int // peers that want runs too
}

// read takes all rows. The facts come with one of them; each but perhaps that one is a claim.
func (r *pollReply) read(rows pgx.Rows, l *lanes) error {
	defer rows.Close()
	for rows.Next() {
		var f factsRow
		var c claimRow
		if err := rows.Scan(append(f.targets(), c.targets()...)...); err != nil {
			return err
		}
		if f.terms != nil {
			r.facts = f.facts()
		}
		if c.id != nil {
			r.claims = append(r.claims, c.claim(l))
		}
	}
	return rows.Err()
}

type factsRow struct {
	terms                  *string
	now                    *time.Time
	share, hungry          *int
	fenced, wakes, expires *bool
	pollFacts
}

func (f *factsRow) targets() []any {
	return []any{
		&f.terms, &f.now, &f.share, &f.fenced, &f.wakes, &f.expires, &f.dead, &f.pollFacts.limited, &f.blocked, &f.moved, &f.resets,
		&f.peers, &f.beats, &f.ttls, &f.hungry,
	}
}

func (f *factsRow) facts() pollFacts {
	p := f.pollFacts
	p.terms, p.now, p.share, p.hungry = *f.terms, *f.now, or(f.share), or(f.hungry)
	p.fenced, p.wakes, p.expires = or(f.fenced), or(f.wakes), or(f.expires)
	return p
}

// or is what a pointer points at, or nothing.
func or[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// claimRow is a claimed run; all columns are null beside facts without a claim.
type claimRow struct {
	run, inbox, dag, parent, root, left                               *int64
	epoch, version, lane, losses, depth, generation, tolerated        *int
	id                                                                *uuid.UUID
	params, labels, precomputed, counts                               []byte
	runAt, logicalAt, createdAt, startedAt, deadline                  *time.Time
	name, trigger, submitter, key, trace, reason, ending, by, text, p *string
}

func (c *claimRow) targets() []any {
	return []any{
		&c.name, &c.run, &c.id, &c.epoch, &c.inbox, &c.dag, &c.version, &c.lane, &c.losses, &c.params, &c.labels, &c.precomputed,
		&c.runAt, &c.logicalAt, &c.createdAt, &c.trigger, &c.submitter, &c.key, &c.trace, &c.parent, &c.root, &c.depth, &c.reason,
		&c.generation, &c.ending, &c.by, &c.text, &c.p, &c.startedAt, &c.deadline, &c.left, &c.tolerated, &c.counts,
	}
}

// claim is the claim of a row, also of one that cannot be read.
func (c *claimRow) claim(l *lanes) *Claim {
	claim := NewClaim(RunID(*c.run), *c.id)
	claim.Epoch, claim.Inbox, claim.Losses = *c.epoch, *c.inbox, *c.losses
	claim.DAG, claim.DAGID, claim.Version = *c.name, *c.dag, *c.version
	claim.Lane = *c.lane
	claim.Queue, claim.Priority = l.of(*c.lane)
	claim.Params, claim.Labels, claim.Precomputed = c.params, c.labels, c.precomputed
	claim.RunAt, claim.LogicalAt, claim.CreatedAt = *c.runAt, *c.logicalAt, *c.createdAt
	claim.Trigger, claim.SubmittedBy, claim.Key, claim.Traceparent = *c.trigger, *c.submitter, or(c.key), or(c.trace)
	claim.Parent, claim.Root, claim.Depth = RunID(or(c.parent)), RunID(*c.root), *c.depth
	claim.Row, claim.unreadable = c.row()
	return claim
}

// row is the run's own row as the last drive left it.
func (c *claimRow) row() (dagrun.RunRecord, error) {
	r := dagrun.RunRecord{
		State: dagrun.RunQueued, Reason: *c.reason, Generation: *c.generation, EndingBy: *c.by, EndingText: *c.text, PausedBy: *c.p,
		StartedAt: instant(c.startedAt), Deadline: instant(c.deadline), Left: dagrun.Duration(*c.left), Tolerated: *c.tolerated,
	}
	var err error
	if r.Ending, err = decodeEnding(*c.ending); err != nil {
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
