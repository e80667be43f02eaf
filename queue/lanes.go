package queue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

const (
	// TurnEvery is how many turns go by priority or by speed before one goes to what would starve otherwise. Of the runs that a
	// worker claims, that one is of the lane whose runs wait longest. Of the tasks that get its slots, it is the one that waits
	// longest.
	TurnEvery = 16
)

var readLanes = sql.Named("queue/lanes")

// lane is one that the worker may claim from.
type lane struct {
	ID        int
	Queue     string
	Priority  int
	MaxRun    int   // of its queue, 0: no limit
	DAG       int64 // if it limits its runs, else 0
	MaxActive int
	Halted    bool // only what has begun goes on

	floor  place     // nothing is below, as far as was seen; zero: not known
	locked place     // a run that the last poll passed over, because somebody has its row; zero: none
	since  time.Time // the database's time of the poll that passed over it first
	served int       // when it last gave a run, by lanes.serves
}

// place is where a run stands in its lane. The runs of one bulk call share their moment.
type place struct {
	at  time.Time
	run RunID
}

func (p place) below(q place) bool { return p.at.Before(q.at) || p.at.Equal(q.at) && p.run < q.run }

func (l *lane) limited() bool { return l.MaxRun > 0 || l.DAG != 0 && l.MaxActive > 0 }

// lanes are those that a worker may claim from. Whoever polls owns them.
type lanes struct {
	terms  string  // under which all this is so
	held   []int64 // DAGs whose runs begin, if at all, in lanes of their own: they are paused or limited
	all    []*lane // by priority, the highest first
	byID   map[int]*lane
	serves int          // so far, of lanes and of gates
	claims int          // since the lane that waits longest had its turn
	seen   horizon      // what may still be committed
	passed map[gate]int // when a limit was last gone to, by serves
	owed   []gate       // limits that go first at the next poll
	polled time.Time    // the database's time of the last poll
}

func newLanes() *lanes {
	return &lanes{byID: map[int]*lane{}, passed: map[gate]int{}}
}

// read takes the lanes anew, without floors: what was paused may be below. Whose turn it is stays.
func (l *lanes) read(ctx context.Context, conn *pgx.Conn, worker any) error {
	rows, err := conn.Query(ctx, readLanes, worker)
	if err != nil {
		return err
	}
	next := newLanes()
	next.serves, next.owed, next.polled, next.claims, next.seen = l.serves, l.owed, l.polled, l.claims, l.seen
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, next.scan(row) })
	if err != nil {
		return err
	}
	for id, lane := range next.byID {
		if old := l.byID[id]; old != nil {
			lane.served = old.served
		}
		if turn, ok := l.passed[lane.gate()]; ok {
			next.passed[lane.gate()] = turn
		}
	}
	*l = *next
	return nil
}

func (l *lanes) scan(row pgx.CollectableRow) error {
	var id, priority, maxRun, maxActive *int
	var queue *string
	var dag *int64
	var halted *bool
	err := row.Scan(&l.terms, &l.held, &id, &queue, &priority, &maxRun, &dag, &maxActive, &halted)
	if err != nil || id == nil {
		return err
	}
	lane := &lane{
		ID: *id, Queue: *queue, Priority: *priority, MaxRun: *maxRun, DAG: *dag, MaxActive: *maxActive, Halted: *halted,
	}
	l.all = append(l.all, lane)
	l.byID[lane.ID] = lane
	return nil
}

// order is the order to serve lanes in: by priority, and within one the lane first that has not given anything for the
// longest time, so that none starves.
func (l *lanes) order() []*lane {
	ordered := slices.Clone(l.all)
	slices.SortStableFunc(ordered, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.served, b.served))
	})
	return ordered
}

// above are lanes of a higher priority, in the order given; all for nil.
func above(ordered []*lane, priority *int) []*lane {
	if priority == nil {
		return ordered
	}
	return slices.DeleteFunc(slices.Clone(ordered), func(l *lane) bool { return l.Priority <= *priority })
}

// oldestFirst moves the lane to the front whose runs wait longest, as far as its floor tells, where it is its turn:
// see TurnEvery. It says how many runs of the first lane to claim.
func (l *lanes) oldestFirst(ordered []*lane, want int) (most int) {
	if l.claims < TurnEvery || len(ordered) == 0 || ordered[0].Priority == ordered[len(ordered)-1].Priority {
		return want
	}
	oldest := 0
	for i, lane := range ordered {
		if !lane.limited() && lane.floor.below(ordered[oldest].floor) {
			oldest = i
		}
	}
	l.claims = 0
	if oldest == 0 {
		return want
	}
	lane := ordered[oldest]
	copy(ordered[1:oldest+1], ordered[:oldest])
	ordered[0] = lane
	return (want + TurnEvery - 1) / TurnEvery
}

// gave takes in which lanes gave runs, in the order in which they did.
func (l *lanes) gave(claims []*Claim) {
	l.claims += len(claims)
	for _, c := range claims {
		if lane := l.byID[c.Lane]; lane != nil {
			l.serves++
			lane.served = l.serves
		}
	}
}

// laneArgs are lanes as arrays.
type laneArgs struct {
	ids     []int
	floors  []time.Time // together with froms
	froms   []RunID
	most    []int // runs of each
	limited []bool
	halted  []bool
}

// orMinusInfinity is a moment that is known, or one below every other.
func orMinusInfinity(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0)
	}
	return t
}

func argsOf(ordered []*lane) laneArgs {
	var a laneArgs
	for _, l := range ordered {
		a.ids = append(a.ids, l.ID)
		a.floors, a.froms = append(a.floors, orMinusInfinity(l.floor.at)), append(a.froms, l.floor.run)
		a.limited, a.halted = append(a.limited, l.limited()), append(a.halted, l.Halted)
		a.most = append(a.most, MaxClaims)
	}
	return a
}

// forget is for a database whose clock or transaction ids went back: its next runs may be anywhere.
func (l *lanes) forget() {
	for _, lane := range l.all {
		lane.floor, lane.locked = place{}, place{}
	}
}

// fall has the next poll begin no later than at.
func (l *lanes) fall(at time.Time) {
	for _, lane := range l.all {
		if p := (place{at: at}); p.below(lane.floor) {
			lane.floor = p
		}
	}
}

// fallTo takes in runs that stand below the floors: they fall to these.
func (l *lanes) fallTo(late map[int]place) {
	for id, p := range late {
		if lane := l.byID[id]; lane != nil && p.below(lane.floor) {
			lane.floor = p
		}
	}
}

// view is what others may know of them.
func (l *lanes) view() *laneView {
	return &laneView{terms: l.terms, polled: l.polled, laneArgs: argsOf(l.all)}
}

// look is what a poll did with lanes: in which order it went through them, and which it went through to their end.
type look struct {
	lanes   []*lane
	claims  []*Claim
	emptied bool // it claimed less than it wanted
	now     time.Time
	passed  map[int]place // by lane, the first run that was there and is not claimed
}

// first is where the first claimed run of each lane stood.
func (k *look) first() map[int]place {
	first := map[int]place{}
	for _, c := range k.claims {
		p := place{c.RunAt, c.Run}
		if least, ok := first[c.Lane]; !ok || p.below(least) {
			first[c.Lane] = p
		}
	}
	return first
}

// saw raises the floors of lanes that a poll looked through from their floor on: to the first run it claimed, below which all
// was claimed, by whomever; where a lane gave all it had, to now. Never past what may still be committed, nor past a run that
// was only locked.
func (l *lanes) saw(k look) {
	first := k.first()
	last := -1
	for i, lane := range k.lanes {
		if _, gave := first[lane.ID]; gave {
			last = i
		}
	}
	for i, lane := range k.lanes {
		p, gave := first[lane.ID]
		if !gave && !k.emptied && i > last {
			break // the poll had all it wanted before it came here
		}
		if !gave {
			p = place{at: k.now}
		}
		l.raise(lane, p, k)
	}
}

// raise lifts the floor of a lane to p, as far as it may go.
func (l *lanes) raise(lane *lane, p place, k look) {
	if l.seen.safe.IsZero() {
		return
	}
	if safe := (place{at: l.seen.safe}); safe.below(p) {
		p = safe
	}
	locked, some := k.passed[lane.ID]
	switch {
	case !some:
		lane.locked = place{}
	case locked != lane.locked:
		lane.locked, lane.since = locked, k.now
	}
	if some && locked.below(p) && (k.now.Sub(lane.since) < floorPatience || !l.seen.pass(locked.at)) {
		p = locked
	}
	if lane.floor.below(p) {
		lane.floor = p
	}
}

// of is the queue and the priority of a lane.
func (l *lanes) of(id int) (queue string, priority int) {
	if lane := l.byID[id]; lane != nil {
		return lane.Queue, lane.Priority
	}
	return "", 0
}

// gate is a limit, or two, that lanes share.
type gate struct {
	queue   string // "": without a limit
	inQueue string
	dag     int64 // 0: without a limit
}

func (l *lane) gate() gate {
	g := gate{inQueue: l.Queue}
	if l.MaxRun > 0 {
		g.queue = l.Queue
	}
	if l.MaxActive > 0 {
		g.dag = l.DAG
	}
	return g
}

// behind are the lanes behind a gate, in the order given.
func behind(g gate, ordered []*lane) []*lane {
	return slices.DeleteFunc(slices.Clone(ordered), func(l *lane) bool { return !l.limited() || l.gate() != g })
}
