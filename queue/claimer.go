package queue

import (
	"context"
	"fmt"
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

// Bounds of a poll.
const (
	MaxClaims = 128 // that one Poll makes, so that one answer is not too large: a run may have params of a MiB
	repolls   = 2   // within one Poll

	// returnsKept is for how long a poll can tell what came back to its lanes. Workers delete what all have seen for as long.
	returnsKept = time.Minute
)

var pollRuns = sql.Named("queue/poll")

// Poll claims runs. Call it when there is room and something may be due, and each PollInterval.
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

	polling  chan struct{} // holds one token
	lanes    *lanes
	hunger   hunger
	answered time.Duration // when the last poll was
	anew     atomic.Bool   // its connection is a new one: behind it may be a server that was promoted and gave transaction ids once more
	back     bool          // runs may have become visible where this poll did not look
	old      comeback      // what was committed so long below the floors that it is for a sweep
}

func newClaimer(s *Session, conn *link, x *exchange) *claimer {
	return &claimer{
		worker: &s.worker, conn: conn, held: s.held, x: x, lost: s.lost, now: boottime.Now, polling: newToken(), lanes: newLanes(),
	}
}

func (c *claimer) poll(ctx context.Context, want Want) (Polled, error) {
	want.Slots, want.Idle, want.Free = between(want.Slots), between(want.Idle), max(want.Free, 0)
	c.lanes.fallTo(c.x.takeLate()) // not while a poll is under way, which began where it did not look for them
	c.back = false
	p, err := c.claim(ctx, want)
	c.dropUnreadable(&p)
	c.x.lanes.Store(c.lanes.view())
	if c.old.some { // by the view's floors
		c.x.lateSince(c.old.from)
		c.old = comeback{}
	}
	p.Sweep = c.x.sweepDue()
	if p.Hungry = len(p.Claims) < min(want.Slots, want.Free); p.Hungry { // what ranks above and could be claimed would have been: it is locked, or its limit is full
		p.Top = nil
	}
	waits := c.hunger.waits(p.Hungry, &c.lanes.seen, c.now())
	switch {
	case p.Hungry && c.back:
		p.Within = soon[0]
	case waits:
		p.Within = openInterval
	}
	return p, err
}

func between(n int) int { return min(max(n, 0), MaxClaims) }

// claim claims and, where there is no room for what notifications told of, tells others.
func (c *claimer) claim(ctx context.Context, want Want) (p Polled, err error) {
	told := c.x.takeNoticed()
	seen, err := c.claimAll(ctx, want, &p)
	if err != nil {
		c.x.notice(told) // the next poll passes them on
		return p, err
	}
	p.Top, p.Now = seen.top, dagrun.Time(seen.seen.now.UnixMilli())
	return p, c.passOn(ctx, told, want.Free, p.Claims)
}

// claimAll adds to p.Claims: first from limits that had to wait, then from the lanes.
func (c *claimer) claimAll(ctx context.Context, want Want, p *Polled) (*pollFacts, error) {
	room := func() int { return max(want.most()-len(p.Claims), 0) }
	if c.worker.Only != 0 {
		if err := c.claimFamily(ctx, room, p); err != nil {
			return nil, err
		}
		return c.pollLanes(ctx, Want{}, 0, p) // it has no lanes: what is left is to see whether it is fenced
	}
	if err := c.claimLimited(ctx, c.lanes.owed, want, room, p); err != nil {
		return nil, err
	}
	seen, err := c.pollLanes(ctx, want, room(), p)
	if err != nil {
		return nil, err
	}
	due := c.lanes.gatesOf(seen.limited)
	err = c.claimLimited(ctx, due, want, room, p)
	c.lanes.owe(due, room() == 0)
	return seen, err
}

// most is how many runs to claim at the most.
func (w *Want) most() int {
	if w.full() {
		return w.Idle
	}
	return w.Slots
}

// pollLanes sends the poll. It goes again where it claimed nothing because somebody changed what may be claimed, or because
// its connection was gone.
func (c *claimer) pollLanes(ctx context.Context, want Want, n int, p *Polled) (*pollFacts, error) {
	ordered := above(c.lanes.order(), want.Above)
	for try := 0; ; try++ {
		r, err := c.sendPoll(ctx, want, ordered, newClaimIDs(n))
		if pglink.Classify(err) == pglink.SessionLost && try < repolls && ctx.Err() == nil {
			continue // the connection had died before
		}
		if err != nil {
			return nil, err
		}
		if !r.facts.fenced {
			return nil, c.lost()
		}
		p.Claims = append(p.Claims, r.claims...)
		if r.facts.terms == c.lanes.terms || try == repolls {
			return &r.facts, nil
		}
		if err := c.readLanes(ctx); err != nil {
			return nil, err
		}
		ordered = above(c.lanes.order(), want.Above)
	}
}

func (c *claimer) readLanes(ctx context.Context) error {
	return c.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := c.lanes.read(ctx, conn, c.worker.ID); err != nil {
			return fmt.Errorf("read lanes: %w", err)
		}
		return nil
	})
}

func (c *claimer) sendPoll(ctx context.Context, want Want, ordered []*lane, ids []uuid.UUID) (*pollReply, error) {
	if c.anew.Swap(false) || c.now()-c.answered > returnsKept/2 {
		c.lanes.seen = horizon{} // of what came back meanwhile some may not be told
		c.lanes.forget()
	}
	args := c.pollArgs(want, ordered, ids)
	var reply pollReply
	claims, err := c.ask(ctx, ids, func(ctx context.Context, conn *pgx.Conn) ([]*Claim, error) {
		rows, err := conn.Query(ctx, pollRuns, args)
		if err != nil {
			return nil, err
		}
		err = reply.read(rows, c.lanes)
		return reply.claims, err
	})
	if err != nil {
		return nil, err
	}
	f := &reply.facts
	c.lanes.fallTo(f.back)
	c.x.block(f.blocked)
	forget, back := c.lanes.seen.see(f.seen)
	c.lanes.gave(claims)
	if f.terms == c.lanes.terms && !want.full() {
		c.lanes.saw(look{
			lanes:  slices.DeleteFunc(slices.Clone(ordered), func(l *lane) bool { return l.limited() || l.Halted }),
			claims: claims, emptied: len(claims) < len(ids), now: f.seen.now, passed: f.passed,
		})
	}
	c.back = c.goBack(forget, back) || c.back // after floors rose to where this poll came
	c.lanes.polled, c.answered = f.seen.now, c.now()
	return &reply, nil
}

// ask sends what claims runs under ids, and takes the claims in, in the order of these ids. Sweeps leave the ids alone until the reply
// is read or the server process is known to be gone.
func (c *claimer) ask(ctx context.Context, ids []uuid.UUID, send func(context.Context, *pgx.Conn) ([]*Claim, error)) ([]*Claim, error) {
	var claims []*Claim
	err := c.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		c.x.sending(ids)
		claims, err = send(ctx, conn)
		if err == nil {
			c.hold(claims, ids)
		}
		if err == nil || !breaks(err) && !conn.IsClosed() {
			c.x.answered() // after they are held
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// hold takes claims in, in the order in which they were picked.
func (c *claimer) hold(claims []*Claim, ids []uuid.UUID) {
	rank := make(map[uuid.UUID]int, len(ids))
	for i, id := range ids {
		rank[id] = i
	}
	slices.SortFunc(claims, func(a, b *Claim) int { return rank[a.ID] - rank[b.ID] })
	for _, claim := range claims {
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

// goBack lowers floors to where runs may have become visible that the poll did not look for: those of transactions that floors
// had passed. It reports whether there are any; what is long ago is for a sweep.
func (c *claimer) goBack(forget bool, back comebacks) bool {
	if back.old.some {
		c.old.add(back.old.from)
	}
	if forget {
		c.lanes.forget()
	} else if back.recent.some {
		c.lanes.fall(back.recent.from)
	}
	return forget || back.recent.some
}

func (c *claimer) pollArgs(want Want, ordered []*lane, ids []uuid.UUID) pgx.StrictNamedArgs {
	most := len(ids)
	if !want.full() && want.Above == nil {
		most = c.lanes.oldestFirst(ordered, len(ids))
	}
	l := argsOf(ordered)
	if len(l.most) > 0 {
		l.most[0] = most
	}
	return pgx.StrictNamedArgs{
		"worker": c.worker.ID, "want": len(ids), "free": want.Free, "full": want.full(), "claims": plain(ids),
		"terms": c.lanes.terms, "least": want.Least, "lanes": l.ids, "floors": l.floors, "froms": l.froms,
		"most": l.most, "halted": l.halted, "limited": l.limited, "held": c.lanes.held,
		"seen": given(c.lanes.seen.last),
	}
}

// full reports whether no slot is free or about to be: then only what may need none is claimed.
func (w *Want) full() bool { return w.Slots == 0 }
