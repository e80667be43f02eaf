package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

const (
	// MaxClaims bounds the runs that one Poll claims, so that one answer is not too large: a run may have params of a MiB.
	MaxClaims = 128
	repolls   = 2 // within one Poll

	// TurnEvery is how many turns go by priority before one goes to what would starve otherwise: of polls to the runs that wait
	// longest, and of the slots of a worker to the task that does.
	TurnEvery = 16

	// noQueue is served by a worker that serves no lane: no queue can have this name.
	noQueue = ""
)

var (
	claimRuns    = sql.Named("queue/claim")
	claimLimited = sql.Named("queue/claim_limited")
	claimFamily  = sql.Named("queue/claim_family")
)

// Poll claims runs. Call it when there is room and something may be due, and each PollInterval while no Look says whether something is.
//
// An error says nothing about runs that were claimed: where the reply was lost, a Sweep gives them back.
func (s *Session) Poll(ctx context.Context, want Want) (Polled, error) {
	var p Polled
	err := s.alone(ctx, s.claimer.polling, func() (err error) {
		p, err = s.claimer.poll(ctx, want)
		return err
	})
	if ended := s.end.get(); ended != nil { // perhaps while the poll was under way
		s.held.forfeitAll()
		return Polled{}, ended
	}
	if err != nil && len(p.Claims) == 0 {
		return p, fmt.Errorf("poll: %w", err)
	}
	return p, nil // nobody else would hand out what was claimed; the next poll meets the same trouble
}

// claimer claims runs for a session. Its fields belong to the call that has the token of polling.
type claimer struct {
	worker *Worker
	conn   *link
	held   *claimSet
	x      *exchange
	lost   func() error // ends the session, and says why
	now    func() time.Duration

	polling chan struct{} // holds one token
	anew    atomic.Bool   // its connection is a new one: behind it may be another server
	polls   int           // for slots, so far
	queues  []string      // those that gave runs, the one first that did longest ago
	vain    seen          // by the last claim behind limits that was in vain
	vainAt  time.Duration // when that was
}

func newClaimer(s *Session, conn *link, x *exchange) *claimer {
	return &claimer{worker: &s.worker, conn: conn, held: s.held, x: x, lost: s.lost, now: boottime.Now, polling: newToken(), queues: []string{}}
}

func (c *claimer) poll(ctx context.Context, want Want) (Polled, error) {
	want.Slots, want.Idle, want.Free = between(want.Slots), between(want.Idle), max(want.Free, 0)
	told := c.x.takeNoticed()
	var p Polled
	err := c.claim(ctx, want, &p)
	if err != nil || c.passOn(ctx, told, want.Free, p.Claims) != nil {
		c.x.notice(told) // the next poll passes them on
	}
	c.dropUnreadable(&p)
	p.Sweep = c.x.sweepDue()
	p.Hungry = len(p.Claims) < min(want.Slots, want.Free)
	c.x.hungry.Store(p.Hungry)
	return p, err
}

func between(n int) int { return min(max(n, 0), MaxClaims) }

// order is what a poll claims, and in which order.
type order struct {
	last     int  // stage
	lowest   int  // priority
	fair     bool // the oldest first, whatever its priority and stage
	newFirst bool // what is new before what has begun and wants a slot
}

// order of the next poll. Every sixteenth one for slots is fair, and every other one takes what is new first. One that is for something in
// particular says itself whether it is fair.
func (c *claimer) order(want *Want) order {
	o := order{last: stageRoused, lowest: math.MinInt32}
	if want.Slots == 0 {
		return o
	}
	c.polls++
	o.last, o.fair, o.newFirst = stageNew, c.polls%TurnEvery == 0, c.polls%2 == 0
	if want.Begun {
		o.last = stageBegun
	}
	if want.Lowest != nil {
		o.lowest, o.fair = *want.Lowest, want.Fair
	}
	return o
}

// claim adds to p.Claims. Behind limits it claims before and after the rest, by which of both has something due that ranks higher; by turns
// where neither does.
func (c *claimer) claim(ctx context.Context, want Want, p *Polled) error {
	if c.anew.Swap(false) {
		c.x.cursors.forget()
	}
	if c.worker.Only != 0 {
		if err := c.claimFamily(ctx, want, p); err != nil {
			return err
		}
		_, err := c.claimOpen(ctx, Want{}, order{}, p) // it has no lanes: what is left is to see whether it is fenced
		return err
	}
	o, due := c.order(&want), c.x.due.Load()
	if due.limitedFirst(o, c.polls/2) {
		above := o
		if due.open != nil && !o.fair {
			above.lowest = max(o.lowest, *due.open)
		}
		if err := c.claimLimited(ctx, want, above, p); err != nil {
			return err
		}
	}
	limits, err := c.claimOpen(ctx, want, o, p)
	if err != nil || !limits {
		return err
	}
	return c.claimLimited(ctx, want, o, p)
}

// room is how many more runs to claim.
func (w *Want) room(p *Polled) int {
	n := w.Slots
	if n == 0 {
		n = w.Idle
	}
	return max(n-len(p.Claims), 0)
}

// claimOpen claims behind no limit, and reports whether the worker serves lanes behind some. It goes again where its connection was gone.
func (c *claimer) claimOpen(ctx context.Context, want Want, o order, p *Polled) (limits bool, err error) {
	for try := 0; ; try++ {
		ids := newClaimIDs(want.room(p)) // new ones at each try: the one before may have claimed under its own
		args := c.args(o, ids)
		args["want"], args["free"], args["least"] = len(ids), max(want.Free-len(p.Claims), 0), want.Least
		reply, err := c.ask(ctx, claimRuns, args, ids, false)
		if pglink.Classify(err) == pglink.SessionLost && try < repolls && ctx.Err() == nil {
			continue // the connection had died before
		}
		switch {
		case err != nil:
			return false, err
		case !reply.fenced:
			return false, c.lost()
		}
		p.Now = dagrun.Time(reply.now.UnixMilli())
		c.gave(reply, p)
		return reply.limits, nil
	}
}

// vainInterval is for how long claims behind limits are not repeated once one was in vain: it takes as long as there are limits with
// something due.
const vainInterval = 100 * time.Millisecond

// seen is what a claim behind limits knew. One that was in vain is repeated sooner once this changes: after a look, a notification, a sweep
// that found runs, or the end of a run that was claimed behind a limit here.
type seen struct {
	due   *dueTops // as of the last look; nil: there was no such claim
	ends  int64    // of runs claimed behind limits, up to then
	found int64    // see exchange.found
}

func (c *claimer) claimLimited(ctx context.Context, want Want, o order, p *Polled) error {
	ids := newClaimIDs(want.room(p))
	sees, now := seen{c.x.due.Load(), c.held.limitedEnds.Load(), c.x.found.Load()}, c.now()
	if len(ids) == 0 || sees == c.vain && now-c.vainAt < vainInterval {
		return nil
	}
	reply, err := c.ask(ctx, claimLimited, c.args(o, ids), ids, true)
	if err != nil {
		return err
	}
	if len(reply.claims) == 0 && o.last == stageNew && o.lowest == math.MinInt32 {
		c.vain, c.vainAt = sees, now
	}
	c.gave(reply, p)
	return nil
}

// claimFamily claims for a worker that serves one run and its children.
func (c *claimer) claimFamily(ctx context.Context, want Want, p *Polled) error {
	ids := newClaimIDs(want.room(p))
	if len(ids) == 0 {
		return nil
	}
	reply, err := c.ask(ctx, claimFamily, pgx.StrictNamedArgs{"worker": c.worker.ID, "root": int64(c.worker.Only), "claims": plain(ids)}, ids, false)
	if err != nil {
		return fmt.Errorf("claim run %d: %w", c.worker.Only, err)
	}
	c.gave(reply, p)
	return nil
}

func (c *claimer) args(o order, ids []uuid.UUID) pgx.StrictNamedArgs {
	cursors, rest := c.x.cursors.args()
	return pgx.StrictNamedArgs{
		"worker": c.worker.ID, "claims": plain(ids), "cursors": cursors, "rest": rest,
		"stage": o.last, "lowest": o.lowest, "fair": o.fair, "new_first": o.newFirst, "queues": c.queues,
	}
}

// gave adds what was claimed, and moves its queues behind the others.
func (c *claimer) gave(r *claimReply, p *Polled) {
	c.x.cursors.claimed(r.now, r.claims)
	for _, claim := range r.claims {
		if n := len(c.queues); n > 0 && c.queues[n-1] == claim.Queue {
			continue
		}
		c.queues = append(slices.DeleteFunc(c.queues, func(q string) bool { return q == claim.Queue }), claim.Queue)
	}
	p.Claims = append(p.Claims, r.claims...)
}

// ask sends what claims runs under ids, and takes the claims in, in the order of these ids. Sweeps leave the ids alone until the reply
// is read or the server process is known to be gone.
func (c *claimer) ask(ctx context.Context, text string, args pgx.StrictNamedArgs, ids []uuid.UUID, limited bool) (*claimReply, error) {
	var reply claimReply
	err := c.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		c.x.sending(ids)
		c.x.cursors.asking()
		rows, err := conn.Query(ctx, text, args)
		if err == nil {
			err = reply.read(rows)
		}
		if err == nil {
			c.hold(reply.claims, ids, limited)
		}
		if err == nil || !breaks(err) && !conn.IsClosed() {
			c.x.answered() // after they are held
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &reply, nil
}

// hold takes claims in, in the order in which they were picked.
func (c *claimer) hold(claims []*Claim, ids []uuid.UUID, limited bool) {
	rank := make(map[uuid.UUID]int, len(ids))
	for i, id := range ids {
		rank[id] = i
	}
	slices.SortFunc(claims, func(a, b *Claim) int { return rank[a.ID] - rank[b.ID] })
	for _, claim := range claims {
		claim.Limited = limited
		c.held.add(claim)
	}
}

// newClaimIDs are random, so that an id is never used twice whatever happens to the database.
func newClaimIDs(n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	return ids
}

// plain are ids as pgx knows them: it writes others by way of their text.
func plain(ids []uuid.UUID) [][16]byte {
	all := make([][16]byte, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}

var wakeOthers = sql.Named("queue/wake")

// passOn forwards notices to other hungry workers when this one has no slot left for the runs. Its own row says by now that it is
// not hungry, so the notices do not come back.
func (c *claimer) passOn(ctx context.Context, told map[int]notice, free int, claims []*Claim) error {
	if len(claims) < free || len(told) == 0 || !c.x.peers.Load() {
		return nil
	}
	left := map[int]int64{}
	for lane, n := range told {
		left[lane] = max(n.rows, 1)
	}
	for _, claim := range claims {
		left[claim.Lane]--
	}
	var lanes []int
	var rows []int64
	var ats []time.Time
	for _, lane := range slices.Sorted(maps.Keys(told)) {
		if left[lane] > 0 {
			lanes, rows, ats = append(lanes, lane), append(rows, left[lane]), append(ats, told[lane].at)
		}
	}
	if len(lanes) == 0 {
		return nil
	}
	return c.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, wakeOthers, pgx.StrictNamedArgs{"lanes": lanes, "rows": rows, "ats": ats}); err != nil {
			return fmt.Errorf("wake others: %w", err)
		}
		return nil
	})
}

// A row may hold what this version cannot read: a newer one wrote it, or something is broken. Its run is put away for
// others, who perhaps can; all other runs go on.
const (
	unreadablePause = time.Minute // before the next worker tries
	unreadableTries = 5           // by whomever; then the run fails
	unreadableBatch = 50          // that one DoChores puts away
)

var putAwayRun = sql.Named("queue/put_away")

// unreadableError says why this version cannot read a DAG as it is stored.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

// unreadClaim is a claim that nobody here can drive. It is held until it is put away.
type unreadClaim struct {
	claim *Claim
	why   error
}

// dropUnreadable takes those claims out of a poll whose rows could not be read.
func (c *claimer) dropUnreadable(p *Polled) {
	var readable []*Claim
	for _, claim := range p.Claims {
		if claim.unreadable != nil {
			c.x.addUnreadable(claim, claim.unreadable)
		} else {
			readable = append(readable, claim)
		}
	}
	p.Claims = readable
}

// releaseUnreadable gives back what cannot be read. What somebody else holds is tried again by the next call.
func (j *janitor) releaseUnreadable(ctx context.Context) error {
	var errs []error
	for _, u := range j.x.takeUnreadable(unreadableBatch) {
		err := j.putAway(ctx, u)
		if err == nil {
			j.held.remove(u.claim)
			continue
		}
		j.x.addUnreadable(u.claim, u.why)
		if !isLockTimeout(err) {
			errs = append(errs, fmt.Errorf("put run %d away, which cannot be read (%w): %w", u.claim.Run, u.why, err))
		}
	}
	return errors.Join(errs...)
}

func (j *janitor) putAway(ctx context.Context, u unreadClaim) error {
	reason := fmt.Sprintf("worker %s, version %s, cannot read it: %v; is it of a newer version?", j.worker.Name, j.worker.Version, u.why)
	return j.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var ours bool
		return conn.QueryRow(ctx, putAwayRun, pgx.StrictNamedArgs{
			"run": u.claim.Run, "claim": u.claim.ID, "epoch": u.claim.Epoch, "reason": storableReason(reason),
			"pause": unreadablePause, "tries": unreadableTries,
		}).Scan(&ours)
	})
}

// How often a worker calls when nothing asks for it sooner.
const (
	LookInterval  = time.Second
	PollInterval  = 2 * time.Second // so long a run may wait beside a free slot while no look gets through
	SweepInterval = 1500 * time.Millisecond
)

// soon is after how long a hungry worker polls again: a transaction that entered a run before the poll may commit after it, and told nobody
// if the worker was not hungry then. Half a second in all.
var soon = [...]time.Duration{5 * ms, 20 * ms, 40 * ms, 80 * ms, 80 * ms, 80 * ms, 80 * ms, 80 * ms}

const ms = time.Millisecond

// Pace says when to poll next. The zero value is ready to use.
type Pace struct {
	polls int // hungry ones running that brought nothing
}

// After takes in what a poll brought, and says how long the next one may wait. A worker that was not hungry polls as soon
// as it has room again, whatever this says.
func (p *Pace) After(polled Polled) time.Duration {
	switch {
	case !polled.Hungry:
		p.polls = 0
		return PollInterval
	case len(polled.Claims) > 0:
		p.polls = 0
	}
	if p.polls >= len(soon) {
		return PollInterval
	}
	p.polls++
	return soon[p.polls-1]
}

// Hear takes in that something may be due: poll at once, and closely for a while after.
func (p *Pace) Hear() { p.polls = 0 }
