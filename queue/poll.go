package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of a poll.
const (
	MaxClaims = 128 // that one Poll makes, so that one answer is not too large: a run may have params of a MiB
	repolls   = 2   // within one Poll
)

// pollParts says what a poll is needed for; what it could do costs the server time even where it does nothing.
type pollParts struct {
	roused bool // nothing is free: only what may need no slot
	top    bool // tasks wait for slots: what ranks above them
}

var pollTexts = everyPoll()

func everyPoll() map[pollParts]string {
	texts := map[pollParts]string{}
	for i := range 1 << 2 {
		p := pollParts{roused: i&1 > 0, top: i&2 > 0}
		var without []string
		for part, there := range map[string]bool{"roused": p.roused, "fresh": !p.roused, "top": p.top} {
			if !there {
				without = append(without, part)
			}
		}
		texts[p] = sql.Without("queue/poll", without...)
	}
	return texts
}

// Poll claims runs, and looks after other workers' runs while it is there: it queues what waited long enough and what the dead
// left. Call it about once a second, also when nothing is wanted.
//
// An error says nothing about runs that were claimed: where the reply was lost, the next Poll finds them.
func (s *Session) Poll(ctx context.Context, a Appetite) (Polled, error) {
	if err := take(ctx, s.polling); err != nil {
		return Polled{}, fmt.Errorf("poll: %w", err)
	}
	defer func() { s.polling <- struct{}{} }()
	if err := s.end.get(); err != nil {
		return Polled{}, err
	}
	a.Free, a.Spare, a.Ahead, a.Roused = between(a.Free), between(a.Spare), between(a.Ahead), between(a.Roused)
	var p Polled
	err := s.poll(ctx, a, &p)
	if ended := s.end.get(); ended != nil { // perhaps while the poll was under way
		s.held.forfeitAll()
		return Polled{}, ended
	}
	p.Hungry, p.Again = len(p.Claims) < a.Free, err == nil && s.sweeps.pressing()
	if p.Hungry { // whoever ranks above and could be claimed would have been: it is locked, or its limit is full
		p.Top = nil
	}
	p.Soon = s.hunger.waits(p.Hungry, &s.lanes.seen, s.sweeps.now())
	if err != nil && len(p.Claims) == 0 {
		return p, fmt.Errorf("poll: %w", err)
	}
	return p, nil // nobody else would hand out what was claimed; the next poll meets the same trouble
}

func between(n int) int { return min(max(n, 0), MaxClaims) }

func (s *Session) poll(ctx context.Context, a Appetite, p *Polled) error {
	told := s.told.take()
	dead, err := s.catchUp(ctx, p)
	var seen *pollFacts
	if err == nil {
		seen, err = s.claim(ctx, a, p)
	}
	s.sortOut(p)
	if err != nil {
		s.told.add(told) // the next poll passes them on
		s.peers.fail()
		if len(dead) > 0 {
			s.sweeps.doubt() // they are to be found again
		}
		return err
	}
	if seen.dead = append(seen.dead, dead...); len(seen.dead) > reapLimit {
		s.sweeps.doubt()
	}
	p.Top, p.Now = seen.top, dagrun.Time(seen.seen.now.UnixMilli())
	return errors.Join(s.passOn(ctx, told, a.Free+a.Spare, p.Claims), s.lookAfter(ctx, seen, p))
}

// catchUp takes in what earlier polls left: claims whose replies were lost, and what was looked for beside them.
func (s *Session) catchUp(ctx context.Context, p *Polled) (dead []uuid.UUID, err error) {
	if err := s.readBack(ctx, p); err != nil {
		return nil, err
	}
	return s.sweep(ctx)
}

// claim adds to p.Claims: first from limits that had to wait, then from the lanes.
func (s *Session) claim(ctx context.Context, a Appetite, p *Polled) (*pollFacts, error) {
	room := func() int { return max(a.want()-len(p.Claims), 0) }
	if s.worker.Only != 0 {
		if err := s.claimFamily(ctx, room, p); err != nil {
			return nil, err
		}
		return s.pollLanes(ctx, Appetite{Busy: a.Busy, Waiting: a.Waiting}, nil, 0, p) // which it has none of: what is left is to look after others
	}
	ahead := a.Free == 0 && a.Ahead > 0 // and so behind no limit
	if !ahead {
		if err := s.claimLimited(ctx, s.lanes.owed, a, room, p); err != nil {
			return nil, err
		}
	}
	ordered := above(s.lanes.order(), a.Above)
	if ahead {
		ordered = s.withoutRoom(ordered)
	}
	seen, err := s.pollLanes(ctx, a, ordered, room(), p)
	if err != nil || ahead {
		return seen, err
	}
	due := s.lanes.gatesOf(seen.limited)
	err = s.claimLimited(ctx, due, a, room, p)
	s.lanes.owe(due, room() == 0)
	return seen, err
}

// want is how many runs to claim at the most.
func (a *Appetite) want() int {
	switch {
	case a.Free > 0:
		return a.Free
	case a.Ahead > 0:
		return a.Ahead
	}
	return a.Roused
}

// pollLanes sends the poll. It goes again where it claimed nothing because somebody changed what may be claimed, or because
// its connection was gone.
func (s *Session) pollLanes(ctx context.Context, a Appetite, ordered []*lane, want int, p *Polled) (*pollFacts, error) {
	for try := 0; ; try++ {
		ids := newClaimIDs(want)
		r, err := s.sendPoll(ctx, a, ordered, ids, p)
		if pglink.Classify(err) == pglink.SessionLost {
			s.peers.fail()
			s.unread = append(s.unread, ids...)
			if readErr := s.readBack(ctx, p); readErr != nil || len(p.Claims) > 0 || try == repolls {
				return nil, errors.Join(err, readErr)
			}
			continue // the connection had died before
		}
		if err != nil {
			return nil, err
		}
		if !r.facts.fenced {
			return nil, s.lost()
		}
		p.Claims = append(p.Claims, r.claims...)
		if r.facts.terms == s.lanes.terms || try == repolls {
			return &r.facts, nil
		}
		if err := s.readLanes(ctx); err != nil {
			return nil, err
		}
		if ordered = above(s.lanes.order(), a.Above); a.Free == 0 && a.Ahead > 0 {
			ordered = s.withoutRoom(ordered)
		}
	}
}

func (s *Session) readLanes(ctx context.Context) error {
	return s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.lanes.read(ctx, conn, s.worker.ID); err != nil {
			return fmt.Errorf("read lanes: %w", err)
		}
		return nil
	})
}

// newClaimIDs are random, so that an id is never used twice whatever happens to the database.
func newClaimIDs(n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	return ids
}

func (s *Session) sendPoll(ctx context.Context, a Appetite, ordered []*lane, ids []uuid.UUID, p *Polled) (*pollReply, error) {
	parts := pollParts{roused: a.Free+a.Ahead == 0, top: a.Least != nil}
	args := s.pollArgs(a, ordered, ids)
	var reply pollReply
	err := s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, pollTexts[parts], args)
		if err != nil {
			return err
		}
		if err := reply.read(rows, s.lanes, parts); err != nil {
			return err
		}
		s.hold(reply.claims, ids)
		return nil
	})
	if err != nil {
		return nil, err
	}
	f := &reply.facts
	s.lanes.moved(f)
	forget, back := s.lanes.seen.see(f.seen)
	s.lanes.gave(reply.claims)
	if f.terms == s.lanes.terms && !parts.roused {
		s.lanes.saw(look{
			lanes:  slices.DeleteFunc(slices.Clone(ordered), func(l *lane) bool { return l.limited() || l.Halted }),
			claims: reply.claims, emptied: len(reply.claims) < len(ids), now: f.seen.now, passed: f.passed, full: a.Free == 0,
		})
	}
	p.Back = s.goBack(forget, back) || p.Back // after floors rose to where this poll came
	s.lanes.due(f.wakes, f.expires, f.seen.now)
	return &reply, nil
}

// goBack lowers floors to where runs may have become visible that the poll did not look for: those of transactions that floors
// had passed. It says whether there are any; what is long ago is looked for beside the polls.
func (s *Session) goBack(forget bool, back comebacks) bool {
	if back.old.some {
		s.sweeps.since.add(back.old.from)
	}
	if forget {
		s.lanes.forget()
	} else if back.recent.some {
		s.lanes.fall(back.recent.from)
	}
	return forget || back.recent.some
}

// showEvery is how often a worker lets others see how busy it is where nothing else has it write its row.
const showEvery = time.Second

func (s *Session) pollArgs(a Appetite, ordered []*lane, ids []uuid.UUID) pgx.StrictNamedArgs {
	show := s.sweeps.now()-s.shown >= showEvery
	if show {
		s.shown = s.sweeps.now()
	}
	most := len(ids)
	if a.Free > 0 && a.Above == nil {
		most = s.lanes.oldestFirst(ordered, len(ids))
	}
	l := argsOf(ordered)
	if len(l.most) > 0 {
		l.most[0] = most
	}
	return pgx.StrictNamedArgs{
		"worker": s.worker.ID, "want": len(ids), "free": min(a.Free, len(ids)) + a.Spare, "claims": plain(ids), "terms": s.lanes.terms, "show": show,
		"least": a.Least, "busy": a.Busy, "waiting": a.Waiting, "lanes": l.ids, "resets": l.resets, "floors": l.floors, "froms": l.froms,
		"most": l.most, "halted": l.halted, "limited": l.limited, "held": s.lanes.held,
		"slept": orMinusInfinity(s.lanes.slept), "waited": orMinusInfinity(s.lanes.waited),
	}
}

// plain are ids as pgx knows them: it writes others by way of their text.
func plain(ids []uuid.UUID) [][16]byte {
	all := make([][16]byte, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}

// hold takes claims into the holdings, in the order in which they were picked.
func (s *Session) hold(claims []*Claim, ids []uuid.UUID) {
	rank := make(map[uuid.UUID]int, len(ids))
	for i, id := range ids {
		rank[id] = i
	}
	slices.SortFunc(claims, func(a, b *Claim) int { return rank[a.ID] - rank[b.ID] })
	for _, c := range claims {
		s.held.add(c)
	}
}
