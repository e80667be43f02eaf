package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of a poll.
const (
	MaxClaims = 1000 // that one Poll makes; it may want more
	repolls   = 2    // within one Poll

	// claimBytes of params and results handed in end a Poll: more than they, and the 16 runs that go past them, no worker is
	// to take in at once.
	claimBytes = 16 << 20

	// dividedFrom is how many of the runs that a notification told of have to fall to a worker for it to leave the others to
	// those who were told of them: of fewer, whoever polls first takes a share of what is left, which nobody has to wait for.
	dividedFrom = 16
)

// pollParts says what a poll is needed for beside claims; what it could do costs the server time even where it does nothing.
type pollParts struct {
	others bool // other workers want runs, too
	many   bool // more are wanted than one answer takes whatever their size
}

// sizeless is how many runs a poll claims without looking at the size of their params.
const sizeless = 16

var pollTexts = everyPoll()

func everyPoll() map[pollParts]string {
	texts := map[pollParts]string{}
	for i := range 1 << 2 {
		p := pollParts{others: i&1 > 0, many: i&2 > 0}
		var without []string
		for part, there := range map[string]bool{"others": p.others, "many": p.many} {
			if !there {
				without = append(without, part)
			}
		}
		texts[p] = sql.Without("queue/poll", without...)
	}
	return texts
}

// Poll claims up to want runs, and looks after other workers' runs while it is there: it queues what waited long enough
// and what the dead left. Call it about once a second, also when nothing is wanted.
//
// An error says nothing about runs that were claimed: where the reply was lost, the next Poll finds them.
func (s *Session) Poll(ctx context.Context, want int) (Polled, error) {
	if err := take(ctx, s.polling); err != nil {
		return Polled{}, fmt.Errorf("poll: %w", err)
	}
	defer func() { s.polling <- struct{}{} }()
	if err := s.end.get(); err != nil {
		return Polled{}, err
	}
	var p Polled
	err := s.poll(ctx, min(max(want, 0), MaxClaims), &p)
	if ended := s.end.get(); ended != nil { // perhaps while the poll was under way
		s.held.forfeitAll()
		return Polled{}, ended
	}
	p.Hungry, p.Again = len(p.Claims) < want && bytesOf(p.Claims) < claimBytes, err == nil && s.sweeps.pressing()
	if err != nil && len(p.Claims) == 0 {
		return p, fmt.Errorf("poll: %w", err)
	}
	return p, nil // nobody else would hand out what was claimed; the next poll meets the same trouble
}

func (s *Session) poll(ctx context.Context, want int, p *Polled) error {
	dead, err := s.catchUp(ctx, p)
	var seen *pollFacts
	if err == nil {
		seen, err = s.claim(ctx, want, p)
	}
	s.sortOut(p)
	if err != nil {
		s.peers.fail()
		if len(dead) > 0 {
			s.sweeps.doubt() // they are to be found again
		}
		return err
	}
	if seen.dead = append(seen.dead, dead...); len(seen.dead) > reapLimit {
		s.sweeps.doubt()
	}
	return s.lookAfter(ctx, seen, p)
}

// catchUp takes in what earlier polls left: claims whose replies were lost, and what was looked for beside them.
func (s *Session) catchUp(ctx context.Context, p *Polled) (dead []uuid.UUID, err error) {
	if err := s.readBack(ctx, p); err != nil {
		return nil, err
	}
	return s.sweep(ctx)
}

// claim adds to p.Claims: first from limits that had to wait, then from the lanes.
func (s *Session) claim(ctx context.Context, want int, p *Polled) (*pollFacts, error) {
	room := func() int {
		if bytesOf(p.Claims) >= claimBytes {
			return 0
		}
		return max(want-len(p.Claims), 0)
	}
	if s.worker.Only != 0 {
		if err := s.claimFamily(ctx, room, p); err != nil {
			return nil, err
		}
		return s.pollLanes(ctx, 0, p) // which it has none of: what is left is to look after others
	}
	if err := s.claimLimited(ctx, s.lanes.owed, room, p); err != nil {
		return nil, err
	}
	seen, err := s.pollLanes(ctx, room(), p)
	if err != nil {
		return nil, err
	}
	due := s.lanes.gatesOf(seen.limited)
	err = s.claimLimited(ctx, due, room, p)
	s.lanes.owe(due, room() == 0)
	return seen, err
}

// pollLanes sends the poll. It goes again where it claimed nothing because somebody changed what may be claimed, or because
// its connection was gone.
func (s *Session) pollLanes(ctx context.Context, want int, p *Polled) (*pollFacts, error) {
	part := s.myPart()
	for try := 0; ; try++ {
		ids := newClaimIDs(want)
		r, err := s.sendPoll(ctx, ids, claimBytes-bytesOf(p.Claims), part)
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
		p.Divided = part > 0 && len(r.claims) == part
		if r.facts.terms == s.lanes.terms || try == repolls {
			return &r.facts, nil
		}
		if err := s.readLanes(ctx); err != nil {
			return nil, err
		}
	}
}

// myPart is how many runs fall to this worker of those that notifications told of; 0: nobody else was told, or it is not worth
// dividing.
func (s *Session) myPart() int {
	part := s.part.Swap(0)
	if s.peers.hungry == 0 || part < dividedFrom {
		return 0
	}
	return int(min(part, MaxClaims))
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

func (s *Session) sendPoll(ctx context.Context, ids []uuid.UUID, bytes, part int) (*pollReply, error) {
	ordered := s.lanes.order()
	statement, args := s.pollStatement(ordered, ids, bytes, part)
	var reply pollReply
	err := s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, statement, args)
		if err != nil {
			return err
		}
		if err := reply.read(rows, s.lanes); err != nil {
			return err
		}
		s.hold(reply.claims, ids)
		return nil
	})
	if err != nil {
		return nil, err
	}
	f := &reply.facts
	unlimited := slices.DeleteFunc(slices.Clone(ordered), (*lane).limited)
	emptied := f.terms == s.lanes.terms && len(reply.claims) < f.share && bytesOf(reply.claims) < bytes
	s.lanes.gave(reply.claims)
	s.lanes.saw(unlimited, reply.claims, emptied, f.now)
	s.lanes.moved(f.moved, f.resets)
	s.lanes.due(f.wakes, f.expires, f.now)
	return &reply, nil
}

func (s *Session) pollStatement(ordered []*lane, ids []uuid.UUID, bytes, part int) (string, pgx.StrictNamedArgs) {
	parts, a := pollParts{others: s.peers.hungry > 0, many: len(ids) > sizeless}, argsOf(ordered)
	args := pgx.StrictNamedArgs{
		"worker": s.worker.ID, "want": len(ids), "claims": plain(ids), "terms": s.lanes.terms,
		"lanes": a.ids, "resets": a.resets, "floors": a.floors, "froms": a.froms, "halted": a.halted, "limited": a.limited, "held": s.lanes.held,
		"slept": orMinusInfinity(s.lanes.slept), "waited": orMinusInfinity(s.lanes.waited),
	}
	if parts.others {
		args["others"], args["part"] = s.peers.hungry, part
	}
	if parts.many {
		args["bytes"] = bytes
	}
	return pollTexts[parts], args
}

// bytesOf is what claims hold that may be large.
func bytesOf(claims []*Claim) (n int) {
	for _, c := range claims {
		n += len(c.Params) + len(c.Precomputed)
	}
	return n
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
