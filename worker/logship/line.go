package logship

import (
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// line is what the loop knows of a log.
type line struct {
	log     *Log
	spool   *spool
	next    int // number of the next piece
	count   queue.LineCounter
	sending int   // pieces under way, at the front
	dropped int64 // bytes, as far as the chunks say so
	closing *closing
}

type closing struct {
	request
	deadline time.Time // is put off while something is stored, up to limit
	limit    time.Time
}

// budget is what a call of the sink still takes.
type budget struct{ chunks, bytes int }

// free says whether the log can be ended without the loop, and makes it the caller's alone.
func (n *line) free() bool {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.sending > 0 || n.tail() > 0 {
		return false
	}
	for _, p := range l.pieces {
		if p.spooled || p.taken && !p.sent { // on disk, or on its way there
			return false
		}
	}
	l.over = true
	return true
}

func (n *line) isOver() bool {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	return n.log.over
}

// due says when the log has something to send. It never has while something of it is under way.
func (n *line) due(now time.Time, interval time.Duration) (time.Time, bool) {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return time.Time{}, false
	case n.sending > 0 || len(l.pieces) == 0 || n.closing != nil && n.tail() == 0:
		return time.Time{}, false
	case l.pieces[0].sent || l.waiting >= ChunkBytes || n.closing != nil:
		return now, true
	}
	return l.pieces[0].since.Add(interval), true
}

// tail is the index of the first of those pieces that may go with the final marker: no more than a chunk's bytes. The log
// is locked.
func (n *line) tail() int {
	pieces := n.log.pieces
	first, bytes := len(pieces), 0
	for first > 0 && bytes+pieces[first-1].size <= ChunkBytes {
		first--
		bytes += pieces[first].size
	}
	return first
}

// ready says whether a log that is to end need not wait any longer.
func (n *line) ready() bool {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	return n.sending == 0 && n.tail() == 0
}

// collect numbers the next pieces and makes chunks of them.
func (n *line) collect(b *budget) []queue.Chunk {
	pieces := n.take(b)
	chunks := make([]queue.Chunk, 0, len(pieces))
	for _, p := range pieces {
		chunks = append(chunks, n.chunk(p))
	}
	return chunks
}

// take numbers pieces: nothing of them changes from now on.
func (n *line) take(b *budget) []*piece {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	last, bytes := len(l.pieces), 0
	if n.closing != nil {
		last = n.tail()
	}
	count := 0
	for count < last && b.chunks > 0 {
		p := l.pieces[count]
		if bytes += p.size; bytes > sendBytes || p.size > b.bytes {
			break
		}
		b.chunks, b.bytes = b.chunks-1, b.bytes-p.size
		n.number(p)
		count++
	}
	n.sending = count
	return l.pieces[:count:count]
}

func (n *line) number(p *piece) {
	p.taken = true
	if !p.sent {
		p.sent, p.seq = true, n.next
		n.next++
		n.dropped += p.dropped
	}
}

// chunk is a numbered piece as it is stored. What the disk has lost is empty for good, as its number is given.
func (n *line) chunk(p *piece) queue.Chunk {
	if p.data == nil {
		p.data = make([]byte, p.size)
		if err := n.spool.read(p.offset, p.data); err != nil {
			n.lose(p)
			p.data, p.dropped = []byte{}, p.dropped+int64(p.size)
			n.dropped += int64(p.size)
		}
	}
	c := n.log.at
	c.Seq, c.Stream, c.At, c.Data, c.Dropped, c.Lines = p.seq, p.stream, p.at, p.data, p.dropped, p.lines
	if !p.counted {
		n.count.Count(&c)
		p.counted, p.lines = true, c.Lines
	}
	return c
}

// stored takes off what was under way, and says how much memory that frees. Of a run that is lost nothing was stored.
func (n *line) stored(lost bool) int64 {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	freed := int64(0)
	for _, p := range l.pieces[:n.sending] {
		if lost {
			n.lose(p)
		} else {
			n.keep(p)
		}
		freed += n.forget(p)
	}
	clear(l.pieces[:n.sending])
	l.pieces = l.pieces[n.sending:]
	n.sending = 0
	return freed
}

// failed takes back what was under way: it goes again, as it is.
func (n *line) failed() {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	n.sending = 0
}

func (n *line) forget(p *piece) int64 {
	n.log.waiting -= int64(p.size)
	return n.spool.forget(p)
}

// abandon drops what waits: nothing of this run will be stored.
func (n *line) abandon() int64 {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	freed := int64(0)
	if l.over {
		return 0
	}
	for _, p := range l.pieces {
		l.dropped += counted(p) + p.dropped
		n.lose(p)
		freed += n.forget(p)
	}
	l.pieces = nil
	return freed
}

// finish makes chunks of what is left: what was sent without an answer, by the same numbers; the tail; and the marker.
// What stands between them was not sent in time and is dropped.
func (n *line) finish(reason string) []queue.Chunk {
	l := n.log
	l.mu.Lock()
	pieces, dropped := l.pieces, l.dropped
	first := n.tail()
	l.pieces, n.sending, l.over = nil, 0, true
	l.mu.Unlock()
	var chunks []queue.Chunk
	gap, freed := int64(0), int64(0)
	for i, p := range pieces {
		switch {
		case p.sent:
			chunks = append(chunks, n.chunk(p))
			n.keep(p)
		case i < first:
			gap += p.dropped + counted(p)
			n.lose(p)
		default:
			p.dropped += gap
			gap = 0
			n.number(p)
			chunks = append(chunks, n.chunk(p))
			n.keep(p)
		}
		freed += n.forget(p)
	}
	l.shipper.release(freed)
	return append(chunks, n.marker(reason, gap+dropped))
}

// keep counts a piece that is stored, lose one that will not be. One that the disk has lost was counted then.
func (n *line) keep(p *piece) {
	if !p.gone() {
		n.log.shipper.count.stored.Add(counted(p))
	}
}

func (n *line) lose(p *piece) {
	if !p.gone() {
		n.log.shipper.count.dropped.Add(counted(p))
	}
}

// gone says whether the disk has lost a piece.
func (p *piece) gone() bool { return p.data != nil && len(p.data) < p.size }

// counted is how many bytes of the body a piece holds.
func counted(p *piece) int64 {
	if p.stream == queue.StreamOarlock {
		return 0
	}
	return int64(p.size)
}

// marker ends the log. It says so where something is missing.
func (n *line) marker(reason string, dropped int64) queue.Chunk {
	n.dropped += dropped
	c := n.log.at
	c.Seq, c.Stream, c.At, c.Final, c.Reason, c.Dropped = n.next, queue.StreamOarlock, n.log.shipper.config.Now(), true, reason, dropped
	if n.dropped > 0 {
		c.Data = fmt.Appendf(nil, "log incomplete: %d bytes were dropped\n", n.dropped)
	}
	n.count.Count(&c)
	return c
}

// unload moves large pieces that were not sent yet to disk.
func (n *line) unload() (freed int64, err error) {
	for _, p := range n.large() {
		if err = n.spool.write(p); err != nil {
			return freed, err
		}
		freed += int64(p.size)
	}
	return freed, nil
}

// large lists the pieces worth writing to disk, and takes them.
func (n *line) large() []*piece {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*piece
	for _, p := range l.pieces {
		if !l.over && !p.sent && p.data != nil && p.size >= spoolWorth {
			p.taken = true
			list = append(list, p)
		}
	}
	return list
}
