package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// clockSlack is how much older a run may be than the id of the transaction that enters it: enqueue reads the clock, then
	// writes the row.
	clockSlack = 50 * time.Millisecond
	// floorPatience is for how long floors wait for a transaction that is open, or for a run that is locked.
	floorPatience = 250 * time.Millisecond
	// stepBack bounds how far a poll goes back for a transaction that ended. What is older is looked for beside the polls.
	stepBack = 2 * time.Second
	// maxMarks bounds the polls that are remembered. Of a transaction older than all of them nothing is known.
	maxMarks = 1024
)

// horizon knows below which moment no run is committed any more. Each poll brings its own transaction id and the ids of
// the transactions that are open. A transaction with a higher id than an earlier poll began after that poll, and so did its runs.
type horizon struct {
	marks []pollMark             // of the last polls, the oldest first
	open  map[uint64]*openWriter // transactions that were open at the last poll
	last  string                 // snapshot of the last poll, as the database writes it; "": there was none
	safe  time.Time              // the floor of no lane may be above; zero: nothing is known
}

// pollMark is the transaction id of a poll, and its time.
type pollMark struct {
	xid uint64
	now time.Time
}

// openWriter is a transaction that may still commit runs.
type openWriter struct {
	low    time.Time // no run of it is older; zero: not known
	seen   time.Time // when a poll saw it first
	passed bool      // floors went past it
}

// snapshot is what a poll saw of transactions.
type snapshot struct {
	text string // as the database writes it
	xid  uint64
	open []uint64
	now  time.Time
}

// parseSnapshot reads ids as the database writes them: its own, and `xmin:xmax:open,open`.
func parseSnapshot(xid, text string, now time.Time) (s snapshot, err error) {
	s.text, s.now = text, now
	if s.xid, err = strconv.ParseUint(xid, 10, 64); err != nil {
		return s, fmt.Errorf("transaction id of a poll: %w", err)
	}
	list := text[strings.LastIndexByte(text, ':')+1:]
	for id := range strings.SplitSeq(list, ",") {
		if id == "" {
			continue
		}
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return s, fmt.Errorf("snapshot of a poll: %w", err)
		}
		s.open = append(s.open, n)
	}
	return s, nil
}

// comeback says how far back runs may have become visible that a poll did not look for.
type comeback struct {
	some bool
	from time.Time // zero: not known
}

func (c *comeback) add(from time.Time) {
	if !c.some || from.Before(c.from) {
		c.some, c.from = true, from
	}
}

// comebacks are apart, so that what is long ago holds up nothing that was just committed.
type comebacks struct {
	recent comeback // within stepBack: the next poll goes back
	old    comeback
}

// see takes in what a poll saw. It says whether time went back, after which no floor counts, and where transactions ended that
// floors had passed.
func (h *horizon) see(s snapshot) (forget bool, back comebacks) {
	if n := len(h.marks); n > 0 && (s.xid <= h.marks[n-1].xid || s.now.Before(h.marks[n-1].now)) {
		*h, forget = horizon{}, true
	}
	back = h.ended(s)
	h.safe = time.Time{}
	if n := len(h.marks); n > 0 {
		h.safe = h.marks[n-1].now.Add(-clockSlack)
	}
	for _, xid := range s.open {
		w := h.open[xid]
		if w == nil {
			w = &openWriter{low: h.lowOf(xid), seen: s.now}
			h.open[xid] = w
		}
		if s.now.Sub(w.seen) < floorPatience { // of one that began before the first poll nothing is known, and no floor rises
			h.safe = earlier(h.safe, w.low)
		} else {
			w.passed = true
		}
	}
	if len(h.marks) == maxMarks {
		h.marks = slices.Delete(h.marks, 0, maxMarks/2)
	}
	h.marks, h.last = append(h.marks, pollMark{s.xid, s.now}), s.text
	return forget, back
}

// ended drops transactions that are not open any more.
func (h *horizon) ended(s snapshot) (back comebacks) {
	if h.open == nil {
		h.open = map[uint64]*openWriter{}
	}
	for xid, w := range h.open {
		if slices.Contains(s.open, xid) {
			continue
		}
		delete(h.open, xid)
		switch {
		case !w.passed:
		case s.now.Sub(w.low) <= stepBack:
			back.recent.add(w.low)
		default:
			back.old.add(w.low)
		}
	}
	return back
}

// lowOf is the oldest that a run of a transaction can be: shortly before the last poll that has a lower id.
func (h *horizon) lowOf(xid uint64) time.Time {
	n, _ := slices.BinarySearchFunc(h.marks, xid, func(m pollMark, xid uint64) int {
		if m.xid < xid {
			return -1
		}
		return 1
	})
	if n == 0 {
		return time.Time{}
	}
	return h.marks[n-1].now.Add(-clockSlack)
}

// pass lets floors go past a run that has been locked for long: one of the open transactions holds it, and when that ends, the
// run is looked for again. It says no where none is open.
func (h *horizon) pass(at time.Time) bool {
	for _, w := range h.open {
		w.passed = true
		if at.Before(w.low) {
			w.low = at
		}
	}
	return len(h.open) > 0
}

// older says whether a transaction is open that began before the one with this id.
func (h *horizon) older(xid uint64) bool {
	for id := range h.open {
		if id < xid {
			return true
		}
	}
	return false
}

// earlier is the earlier of two moments; a zero one is before all.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
