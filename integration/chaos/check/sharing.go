package check

import (
	"fmt"
	"slices"
	"time"
)

// Bounds of C2: no run may wait for idleMost while a worker that may serve it has a free slot.
const (
	idleMost = 2 * time.Second
	// beatFresh is how long a worker counts after its last sign of life, or after its session was last seen. It is
	// shorter than idleMost, so that a worker that dies stops counting before a wait that began just before its death is
	// too long.
	beatFresh = time.Second
	// gapMost bounds the time between two moments, and tookMost the time that a look may take. Beyond these it is unknown
	// what happened in between. What keeps the sampler from running also keeps workers from it.
	gapMost  = 400 * time.Millisecond
	tookMost = 250 * time.Millisecond
)

// Bounds of C3: a worker may give a run back for want of a slot at most movesMost times within movesTime.
const (
	movesMost = 2
	movesTime = time.Second
)

// Moment is what the database says about the sharing of work at one time, with the faults of that time.
type Moment struct {
	At, Took time.Duration `json:"-"` // by the sampler's own clock
	Seats    []Seat
	Waits    []Wait
}

// Seat is a worker, from one start to its end.
type Seat struct {
	ID, Name string
	Room     bool  // the worker reports a free slot, and no task of its own that waits for one
	Beat     int64 // grows with each sign of life
	Polled   int64 // changes with each look or claim; 0: unknown
	Stuck    bool  // the server has been busy with one of its statements for a while
	Storms   int   `json:"-"` // grows with each fault that begins and could keep it from claiming
	Stormy   bool  `json:"-"` // a fault that could keep it from claiming is under way
	Mute     bool  `json:"-"` // its writes may hang, so that its runs stay with it
}

// Wait is a run that has nothing under way and needs only a slot to go on.
type Wait struct {
	Run      int64
	Epoch    int
	Progress int      // changes when the run makes progress
	Holder   string   // the worker that holds it; "": it is in the queue
	May      []string // ids of workers that may serve it, without the holder
}

// Sharing looks at moments one after the other, and finds runs that wait although another worker has a free slot (C2).
// The zero value is ready to use.
//
// A worker counts once it was seen to beat and to poll since the last fault that could keep it from doing so, and as long
// as its beat goes on. A wait counts while the same worker has room at each moment.
type Sharing struct {
	Moments int           // moments looked at
	Unsure  int           // moments that came too late: everything known before them is dropped
	Open    int           // moments at which a worker that counts had a free slot
	Waits   int           // waits looked at
	Held    int           // waits of runs that a worker holds
	Beside  int           // waits that lasted for two moments or more while a worker had room
	Longest time.Duration // longest wait of Beside
	Broken  []Violation

	last  time.Duration
	seats map[string]*seat
	waits map[waitOf]*pending
}

type seat struct {
	name             string
	storms           int
	beat, polled     int64
	beatAt, polledAt time.Duration
	beats, polls     bool // seen to beat, to poll, since the last fault
}

type waitOf struct {
	run             int64
	epoch, progress int
	holder          string
}

type pending struct {
	since  map[string]time.Duration // since when the wait has lasted, by the worker that has room
	beside bool
}

// Forget drops everything known so far, since the present state is unknown.
func (s *Sharing) Forget() { s.seats, s.waits = nil, nil }

// Look adds a moment.
func (s *Sharing) Look(m *Moment) {
	if s.Moments++; s.Moments > 1 && m.At-s.last > gapMost || m.Took > tookMost {
		s.Unsure++
		s.Forget()
	}
	s.last = m.At
	awake, room := s.lookAtSeats(m)
	for _, open := range room {
		if open {
			s.Open++
			break
		}
	}
	waits := map[waitOf]*pending{}
	for _, w := range m.Waits {
		if w.Holder != "" && !awake[w.Holder] {
			continue
		}
		key := waitOf{w.Run, w.Epoch, w.Progress, w.Holder}
		p := s.waits[key]
		if p == nil {
			s.Waits++
			if w.Holder != "" {
				s.Held++
			}
			p = &pending{since: map[string]time.Duration{}}
		}
		waits[key] = p
		s.lookAtWait(m.At, key, p, slices.DeleteFunc(slices.Clone(w.May), func(id string) bool { return !room[id] }))
	}
	s.waits = waits
}

// lookAtSeats returns the workers that must give runs back, and the workers that must take some.
func (s *Sharing) lookAtSeats(m *Moment) (awake, room map[string]bool) {
	seats := map[string]*seat{}
	awake, room = map[string]bool{}, map[string]bool{}
	for i := range m.Seats {
		now := &m.Seats[i]
		was := s.seats[now.ID]
		if was == nil || was.storms != now.Storms || now.Stormy {
			was = &seat{name: now.Name, storms: now.Storms, beat: now.Beat, polled: now.Polled, beatAt: m.At, polledAt: m.At}
		}
		seats[now.ID] = was
		works := was.look(now, m.At)
		awake[now.ID] = works && !now.Mute
		room[now.ID] = works && now.Room
	}
	s.seats = seats
	return awake, room
}

// look reports whether a worker beats and polls.
func (w *seat) look(now *Seat, at time.Duration) bool {
	if now.Beat != w.beat {
		w.beats, w.beat, w.beatAt = true, now.Beat, at
	}
	if now.Polled != 0 {
		w.polls = w.polls || w.polled != 0 && now.Polled != w.polled
		w.polled, w.polledAt = now.Polled, at
	}
	if at-w.polledAt > beatFresh { // its session is gone
		w.polls, w.polled = false, 0
	}
	return w.beats && w.polls && at-w.beatAt <= beatFresh && !now.Stuck && !now.Stormy
}

// lookAtWait notes which workers have room for a waiting run, and reports a wait that is too long.
func (s *Sharing) lookAtWait(at time.Duration, w waitOf, p *pending, room []string) {
	for id := range p.since {
		if !slices.Contains(room, id) {
			delete(p.since, id)
		}
	}
	for _, id := range room {
		since, known := p.since[id]
		if !known {
			p.since[id] = at
			continue
		}
		if !p.beside {
			p.beside = true
			s.Beside++
		}
		s.Longest = max(s.Longest, at-since)
		if at-since > idleMost {
			s.Broken = append(s.Broken, Violation{"C2", w.run, fmt.Sprintf("it waits %s in epoch %d, from %v to %v at least, while worker %s (%s) has a free slot",
				s.where(w.holder), w.epoch, since, at, s.seats[id].name, id)})
			p.since[id] = at
		}
	}
}

func (s *Sharing) where(holder string) string {
	if holder == "" {
		return "in the queue"
	}
	return fmt.Sprintf("on worker %s (%s)", s.seats[holder].name, holder)
}

// Moves counts how often runs were given back for want of a slot. It reports runs that one worker gave back three times
// within a second (C3), unless in between a task of the run started or ended, a request arrived, or a worker lost the run
// or gave it up.
func Moves(trail []Change) (n int, broken []Violation) {
	by := map[int64]map[string][]Change{} // the last movesMost moves, by run and worker
	for _, c := range trail {
		switch {
		case c.Task != "" && (c.Is == "running" || c.Is == "waiting" || terminal[c.Is]), c.Asked, terminal[c.Is],
			c.Task == "" && c.Was == "running" && c.Is == "queued" && c.GaveBack == "": // what that worker started was not recorded
			delete(by, c.Run)
		}
		if c.Task != "" || c.GaveBack == "" {
			continue
		}
		n++
		if by[c.Run] == nil {
			by[c.Run] = map[string][]Change{}
		}
		last := by[c.Run][c.GaveBack]
		if len(last) == movesMost {
			if within := c.At.Sub(last[0].At); within >= 0 && within < movesTime {
				broken = append(broken, Violation{"C3", c.Run, fmt.Sprintf("worker %s gave it back for want of a slot %d times within %v, in transactions %d to %d, and nothing of it went on in between",
					c.GaveBack, movesMost+1, within, last[0].Tx, c.Tx)})
			}
			last = last[1:]
		}
		by[c.Run][c.GaveBack] = append(last, c)
	}
	return n, broken
}
