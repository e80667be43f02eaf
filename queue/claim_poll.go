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
	// MaxClaims bounds the runs that one Poll claims, so that its answer does not grow too large: one run may have params of a
	// MiB.
	MaxClaims = 128
	repolls   = 2 // one Poll tries again so often after its connection died

	// TurnEvery says how often waiting time counts instead of priority, so that nothing starves. One in TurnEvery polls claims
	// the runs that have waited longest. One in TurnEvery slots of a worker goes to the task that has waited longest.
	TurnEvery = 16

	// noQueue is the only queue of a worker that serves no lane. No queue can have this name.
	noQueue = ""
)

var (
	claimRuns    = sql.Named("queue/claim")
	claimLimited = sql.Named("queue/claim_limited")
	claimFamily  = sql.Named("queue/claim_family")
)

// Poll claims up to want.Slots runs, or up to want.Idle if Slots is 0, but at most MaxClaims. It does not wait for runs to become
// due. Call it when there is room for more and something may be due, and at each PollInterval while no Look reports whether
// something is due. A second Poll of the session waits for the first.
//
// If a part of the poll fails after runs were claimed, Poll returns these runs and no error. After an error there may still be
// claims in the database: if only the reply was lost, a Sweep gives those runs back. If the session has ended, Poll forfeits all
// claims, and returns ErrLeaseLost or ErrClosed.
func (s *Session) Poll(ctx context.Context, want Want) (Polled, error) {
	var p Polled
	err := s.alone(ctx, s.claimer.polling, func() (err error) {
		p, err = s.claimer.poll(ctx, want)
		return err
	})
	if ended := s.end.get(); ended != nil { // the session may have ended while the poll was under way
		s.held.forfeitAll()
		return Polled{}, ended
	}
	if err != nil && len(p.Claims) == 0 {
		return p, fmt.Errorf("poll: %w", err)
	}
	return p, nil // the claims must be returned, because no later call would return them; the next poll meets the same error
}

// claimer claims runs for a session. Its fields belong to the call that has the token of polling.
type claimer struct {
	worker *Worker
	conn   *dedicatedConn
	held   *claimSet
	x      *exchange
	lost   func() error // ends the session and returns the reason
	now    func() time.Duration

	polling chan struct{} // holds one token
	anew    atomic.Bool   // the connection was made anew, so another server may be behind it
	polls   int           // polls for slots so far
	queues  []string      // queues that gave runs, ordered by when each last gave one; the longest ago comes first
	vain    seen          // what the session knew at the last claim behind limits that found nothing
	vainAt  time.Duration // time of that claim
}

func newClaimer(s *Session, conn *dedicatedConn, x *exchange) *claimer {
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

// order says which runs a poll claims, and in which order.
type order struct {
	last     int   // highest stage to claim from
	lowest   int   // lowest priority to claim
	fair     bool  // oldest run first, whatever its priority and stage
	newFirst bool  // new runs before runs that have begun and want a slot
	skip     []int // lanes from which to claim no new runs, not nil
}

// order counts a poll for slots, and returns the order in which the poll claims. Every sixteenth poll for slots is fair, and
// every second one takes new runs first. If want.Lowest is set, want.Fair says instead whether the poll is fair. A poll without
// Slots claims only runs of stageRoused, and is not counted.
func (c *claimer) order(want *Want) order {
	o := order{last: stageRoused, lowest: math.MinInt32, skip: append([]int{}, want.Skip...)}
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

// claim makes the claims of one poll, and adds them to p.Claims. If limitedFirst says so, it begins with runs behind limits;
// unless the poll is fair, these need at least the highest priority of the other due runs. Then it claims behind no limit. At
// last it claims behind limits again with the room that is left, if the worker serves such lanes. For a worker with Only, it
// claims runs of that family and nothing else.
//
// After an error p keeps the claims made before it. If the worker's fence is gone, claim ends the session, and returns
// ErrLeaseLost.
func (c *claimer) claim(ctx context.Context, want Want, p *Polled) error {
	if c.anew.Swap(false) {
		c.x.cursors.forget()
	}
	if c.worker.Only != 0 {
		if err := c.claimFamily(ctx, want, p); err != nil {
			return err
		}
		_, err := c.claimOpen(ctx, Want{}, order{skip: []int{}}, p) // the worker serves no lanes; claimOpen only checks its fence
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

// room returns how many more runs a poll for w may claim: w.Slots, or w.Idle if Slots is 0, less the claims that p has already.
func (w *Want) room(p *Polled) int {
	n := w.Slots
	if n == 0 {
		n = w.Idle
	}
	return max(n-len(p.Claims), 0)
}

// claimOpen claims runs behind no limit, adds them to p.Claims and sets p.Now. It reports whether the worker also serves lanes
// behind limits. It asks the database even if p has no room left, to check the worker's fence. If the fence is gone, it ends the
// session, and returns ErrLeaseLost. If the connection has died, it tries again on a new one, at most repolls times.
func (c *claimer) claimOpen(ctx context.Context, want Want, o order, p *Polled) (limits bool, err error) {
	for try := 0; ; try++ {
		ids := newClaimIDs(want.room(p)) // each try has new ids, because the try before may have claimed runs under its own
		args := c.args(o, ids)
		args["want"], args["free"], args["least"] = len(ids), max(want.Free-len(p.Claims), 0), want.Least
		reply, err := c.ask(ctx, claimRuns, args, ids, false)
		if pglink.Classify(err) == pglink.SessionLost && try < repolls && ctx.Err() == nil {
			continue // the connection had died before this try
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

// vainInterval is the time for which the claimer does not repeat a claim behind limits that found nothing. The cost of such a
// claim grows with the number of limits that have something due.
const vainInterval = 100 * time.Millisecond

// seen is the knowledge with which a claim behind limits was made. A claim that found nothing is repeated before vainInterval is
// over if this knowledge has changed: by a look, a notification, a sweep that found runs, or the end of a run that this session
// claimed behind a limit.
type seen struct {
	due   *dueTops // as of the last look; nil: no claim was made yet
	ends  int64    // number of claims behind limits that had ended
	found int64    // value of exchange.found
}

// claimLimited claims runs behind limits, and adds them to p.Claims. It sends nothing if p has no room left. It also sends
// nothing if such a claim found nothing less than vainInterval ago, and c has learned nothing since that could change this.
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

// claimFamily claims runs for a worker that serves only the run c.worker.Only and its children, and adds them to p.Claims. It
// sends nothing if p has no room left.
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

// args returns the arguments of a statement that claims runs in the order o, under ids.
func (c *claimer) args(o order, ids []uuid.UUID) pgx.StrictNamedArgs {
	shelves, ats, rest := c.x.cursors.args()
	return pgx.StrictNamedArgs{
		"worker": c.worker.ID, "claims": plain(ids), "shelves": shelves, "cursors": ats, "rest": rest,
		"stage": o.last, "lowest": o.lowest, "fair": o.fair, "new_first": o.newFirst, "queues": c.queues, "skip": o.skip,
	}
}

// gave adds the claims of a reply to p.Claims. It moves their queues to the end of c.queues, so that the next poll prefers other
// queues of the same priority, and raises the cursors.
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

// ask sends text, a statement that claims runs under ids. It adds the claims to the claim set, and returns them in the order of
// ids. limited means that the statement claims behind limits, and becomes the Limited of each claim. Sweeps do not give back
// claims under these ids until the reply is read, or until the server process is known to be gone.
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
			c.x.answered() // only after the claims are in the claim set
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &reply, nil
}

// hold sorts claims in place by the position of their ids in ids, the order in which the database picked the runs. It sets the
// Limited of each claim, and adds it to the claim set.
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

// newClaimIDs returns n random ids. Random ids are never used twice, even if the database is restored or replaced.
func newClaimIDs(n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	return ids
}

// plain converts ids to arrays of bytes. pgx sends these in binary form, but formats a uuid.UUID as text first.
func plain(ids []uuid.UUID) [][16]byte {
	all := make([][16]byte, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}

var wakeOthers = sql.Named("queue/wake")

// passOn forwards notices of new runs to other hungry workers, if this poll has used up the free slots of this worker. told holds
// the notices by lane. passOn forwards as many runs of a lane as its notice counts, less the ones in claims. It sends nothing if
// slots are left or no other worker claims runs. The row of this worker already says that it is not hungry, so the notices do not
// come back.
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

// Limits for claims that this version cannot read, because a newer version wrote the row or because the row is damaged. The
// session gives such a run back for other workers, which may be able to read it. All other runs go on.
const (
	unreadablePause = time.Minute // before another worker tries
	unreadableTries = 5           // of all workers together; then the run fails
	unreadableBatch = 50          // claims that one DoChores gives back
)

var releaseUnreadable = sql.Named("queue/release_unreadable")

// unreadableError wraps the reason why this version cannot read a DAG as it is stored.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

// unreadClaim is a claim that this version cannot drive. The claim set holds it until it is released.
type unreadClaim struct {
	claim *Claim
	why   error
}

// dropUnreadable removes the claims with a row that could not be read from p.Claims, forfeits them, and leaves them to the next
// DoChores, which gives them back.
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

// releaseUnreadable gives back at most unreadableBatch claims that this version cannot read. If that fails for a claim, the next
// call tries that claim again, and releaseUnreadable returns the error. It returns no error if another connection merely holds
// the run's row.
func (j *janitor) releaseUnreadable(ctx context.Context) error {
	var errs []error
	for _, u := range j.x.takeUnreadable(unreadableBatch) {
		err := j.releaseOne(ctx, u)
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

// releaseOne parks a claimed run for unreadablePause, for other workers, with the reason in its history. If that was the last of
// unreadableTries tries, the run fails instead. It does nothing if the claim is gone.
func (j *janitor) releaseOne(ctx context.Context, u unreadClaim) error {
	reason := fmt.Sprintf("worker %s, version %s, cannot read it: %v; is it of a newer version?", j.worker.Name, j.worker.Version, u.why)
	return j.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var ours bool
		return conn.QueryRow(ctx, releaseUnreadable, pgx.StrictNamedArgs{
			"run": u.claim.Run, "claim": u.claim.ID, "epoch": u.claim.Epoch, "reason": storableReason(reason),
			"pause": unreadablePause, "tries": unreadableTries,
		}).Scan(&ours)
	})
}

// How often a worker calls if there is no reason to call sooner.
const (
	LookInterval  = time.Second
	PollInterval  = 2 * time.Second // a run waits so long beside a free slot if no look succeeds
	SweepInterval = 1500 * time.Millisecond
)

// soon are the pauses between the polls of a hungry worker, half a second in all. A transaction may enter a run before a poll and
// commit after it; if the worker was not hungry at that time, the transaction did not notify it.
var soon = [...]time.Duration{5 * ms, 20 * ms, 40 * ms, 80 * ms, 80 * ms, 80 * ms, 80 * ms, 80 * ms}

const ms = time.Millisecond

// Pace computes when to poll next. The zero value is ready to use.
type Pace struct {
	polls int // consecutive hungry polls that brought nothing
}

// After records the result of a poll, and returns how long the caller may wait before the next one. If the poll was not hungry,
// that is PollInterval, but the caller must poll earlier if it has room again. After a hungry poll it is the next of the short
// pauses in soon, and PollInterval once all of them are used up. A poll that was not hungry, or that brought claims, makes them
// begin again.
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

// Hear makes After begin again with its shortest pause. The caller calls it when something may have become due, and then polls at
// once.
func (p *Pace) Hear() { p.polls = 0 }
