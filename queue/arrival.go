package queue

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Bounds of one pass over logs.
const (
	maxReadAhead   = 16 // logs whose time has not come, read with those whose has
	maxReadsInPass = 64 // of a run that goes on: then it is time to look for new attempts
)

// arrival is one pass over the open logs of a run: what they have by now, in the order in which it arrived. It keeps a few
// chunks of each log that was under way at the time it has come to, so that memory does not grow with logs or their number.
type arrival struct {
	reader  *logReader
	later   []*openLog // not looked at yet, by when they began
	cursors []*cursor  // with chunks, or with more to read
	reads   int
}

// cursor is a log in a pass.
type cursor struct {
	*openLog

	chunks []Chunk // read, not handed over
	more   bool    // there may be others behind them
}

func (r *logReader) newArrival() *arrival {
	r.open = slices.DeleteFunc(r.open, func(l *openLog) bool { return l.end })
	r.more = false
	a := &arrival{reader: r, later: slices.Clone(r.open)}
	slices.SortStableFunc(a.later, func(l, other *openLog) int {
		return cmp.Or(l.from().Compare(other.from()), l.compare(other.attemptKey))
	})
	return a
}

// from is no later than what is next in a log.
func (l *openLog) from() time.Time { return later(l.began, l.last) }

// at is when the first of its chunks arrived. A clock that was set back does not put it before others of its log.
func (c *cursor) at() time.Time { return later(c.chunks[0].At, c.last) }

// each hands over chunks until take wants no more. What it read and did not hand over is read again by the next pass.
func (a *arrival) each(ctx context.Context, take func(Chunk) bool) error {
	for {
		if wanted := a.wanted(); len(wanted) > 0 {
			if a.reads++; a.reads > maxReadsInPass && !a.reader.over {
				a.reader.more = true
				return nil
			}
			if err := a.read(ctx, wanted); err != nil {
				return err
			}
			continue
		}
		c := a.first()
		if c == nil || !a.pass(c, take) {
			return nil
		}
	}
}

// pass hands over the first chunk of a log.
func (a *arrival) pass(c *cursor, take func(Chunk) bool) bool {
	chunk := c.chunks[0]
	c.chunks = c.chunks[1:]
	a.reader.passed(c.openLog, &chunk)
	if len(c.chunks) == 0 && !c.more {
		a.cursors = slices.DeleteFunc(a.cursors, func(other *cursor) bool { return other == c })
	}
	return take(chunk)
}

// first is the log with the oldest chunk.
func (a *arrival) first() *cursor {
	var oldest *cursor
	for _, c := range a.cursors {
		if oldest == nil || c.at().Before(oldest.at()) {
			oldest = c
		}
	}
	return oldest
}

// wanted are logs that have to be read before the oldest chunk is known.
func (a *arrival) wanted() []*cursor {
	var wanted []*cursor
	for _, c := range a.cursors {
		if len(c.chunks) == 0 && len(wanted) < maxReadAttempts {
			wanted = append(wanted, c)
		}
	}
	if len(wanted) > 0 {
		return wanted
	}
	n := a.due(a.first())
	if n > 0 && n < maxReadAhead {
		n = min(maxReadAhead, len(a.later))
	}
	for _, l := range a.later[:n] {
		wanted = append(wanted, &cursor{openLog: l, more: true})
	}
	a.later = a.later[n:]
	a.cursors = append(a.cursors, wanted...)
	return wanted
}

// due is how many logs may have something older than the oldest chunk so far.
func (a *arrival) due(oldest *cursor) int {
	n := 0
	for n < min(len(a.later), maxReadAttempts) && (oldest == nil || !a.later[n].from().After(oldest.at())) {
		n++
	}
	return n
}

// read gets the next chunks of some logs: so many that all cursors together have about as many as one statement gives.
func (a *arrival) read(ctx context.Context, wanted []*cursor) error {
	logs := make([]*openLog, len(wanted))
	for i, c := range wanted {
		logs[i] = c.openLog
	}
	each := max(1, maxReadChunks/len(a.cursors))
	page, err := a.reader.chunks(ctx, logs, each*len(logs), each)
	if err != nil {
		return err
	}
	for i := range page {
		c := wanted[page[i].place-1]
		c.chunks = append(c.chunks, page[i].Chunk)
	}
	for _, c := range wanted {
		c.more = len(c.chunks) == each && !c.chunks[each-1].Final
	}
	a.cursors = slices.DeleteFunc(a.cursors, func(c *cursor) bool { return len(c.chunks) == 0 && !c.more })
	return nil
}
