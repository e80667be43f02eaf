package logship

import (
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// logState is the loop's own state of a log.
type logState struct {
	log     *Log
	spool   *spool
	next    int // number of the next piece
	count   queue.LineCounter
	sending int   // number of pieces in the present call, at the front
	dropped int64 // bytes, as counted in chunks
	closing *closing
}

type closing struct {
	request
	deadline time.Time // when to give up; moved forward while chunks are stored, up to limit
	limit    time.Time
}

// budget is the room that is left in a call of the sink.
type budget struct{ chunks, bytes int }

// tryDetach reports whether the caller can end the log without the loop: no piece of it is in a call of the sink or on disk, and
// the rest fits into the last chunks. If so, the log belongs to the caller alone from then on, and the loop does not touch it.
func (n *logState) tryDetach() bool {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.sending > 0 || n.tail() > 0 {
		return false
	}
	for _, p := range l.pieces {
		if p.spooled || p.taken && !p.sent { // on disk, or being written to disk
			return false
		}
	}
	l.over = true
	return true
}

func (n *logState) isOver() bool {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	return n.log.over
}

// due returns when the log has something to send: now, or when its oldest piece is as old as interval. It returns false if there is
// nothing to send, if the log is over, or while pieces of it are in the present call. A log that is to end does not send its last
// pieces.
func (n *logState) due(now time.Time, interval time.Duration) (time.Time, bool) {
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

// tail returns the index of the first piece that may be stored with the final marker: the pieces from there on have at most
// ChunkBytes. The caller holds the lock of the log.
func (n *logState) tail() int {
	pieces := n.log.pieces
	first, bytes := len(pieces), 0
	for first > 0 && bytes+pieces[first-1].size <= ChunkBytes {
		first--
		bytes += pieces[first].size
	}
	return first
}

// ready reports whether a log that is to end can be ended now: none of its pieces is in the present call, and only the last ones,
// which go to the caller of Log.Close, are left.
func (n *logState) ready() bool {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	return n.sending == 0 && n.tail() == 0
}

// collect takes the next pieces, as many as b has room for, and returns their chunks. It takes their number and size off b. The
// pieces belong to the present call until stored or failed is called. It returns no chunk if the log is over.
func (n *logState) collect(b *budget) []queue.Chunk {
	pieces := n.take(b)
	chunks := make([]queue.Chunk, 0, len(pieces))
	for _, p := range pieces {
		chunks = append(chunks, n.chunk(p))
	}
	return chunks
}

// take numbers the next pieces, as many as b has room for, and takes their number and size off b. They do not change from then on,
// and n.sending counts them until stored or failed. Of a log that is to end it leaves the last pieces.
func (n *logState) take(b *budget) []*piece {
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

// number gives a piece the next number of the log, and adds the bytes dropped before it to n.dropped, unless it has a number
// already. The piece does not change from then on.
func (n *logState) number(p *piece) {
	p.taken = true
	if !p.sent {
		p.sent, p.seq = true, n.next
		n.next++
		n.dropped += p.dropped
	}
}

// chunk returns the chunk of a numbered piece. If its bytes are on disk, chunk reads them back into p.data. If that fails, the
// chunk is empty for good, because its number is already given, and the bytes count as dropped.
func (n *logState) chunk(p *piece) queue.Chunk {
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

// stored removes the pieces of the call that ended, because they are stored. It returns how much memory that frees; the caller must
// release it.
func (n *logState) stored() int64 {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	freed := int64(0)
	for _, p := range l.pieces[:n.sending] {
		n.keep(p)
		freed += n.forget(p)
	}
	clear(l.pieces[:n.sending])
	l.pieces = l.pieces[n.sending:]
	n.sending = 0
	return freed
}

// failed makes the pieces of the call that failed due again. They are sent again unchanged.
func (n *logState) failed() {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	n.sending = 0
}

func (n *logState) forget(p *piece) int64 {
	n.log.waiting -= int64(p.size)
	return n.spool.forget(p)
}

// abandon drops all pieces after a call that the sink refused for good, those of the call included, and counts them as dropped. It
// returns how much memory that frees; the caller must release it. The log stays open, and takes further bytes. After finish abandon
// does nothing.
//
// The next chunk gets the number of all bytes lost so far. The numbered pieces will not be stored, so n.dropped no longer has the
// bytes that were lost before them.
func (n *logState) abandon() int64 {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	freed := int64(0)
	if l.over {
		return 0
	}
	for _, p := range l.pieces {
		l.dropped += p.dropped
		if p.sent {
			n.dropped -= p.dropped
		}
		if !p.gone() {
			l.dropped += counted(p)
		}
		n.lose(p)
		freed += n.forget(p)
	}
	l.pieces, n.sending = nil, 0
	return freed
}

// finish ends the log: it removes all pieces, and releases their memory. It returns the last chunks: the pieces that were sent
// without an answer, with the same numbers; the tail; and the final marker with reason. It drops the pieces in between, which were
// not sent in time.
func (n *logState) finish(reason string) []queue.Chunk {
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

// keep counts the bytes of a piece as stored, and lose as dropped. A piece that was lost on disk has been counted already.
func (n *logState) keep(p *piece) {
	if !p.gone() {
		n.log.shipper.count.stored.Add(counted(p))
	}
}

func (n *logState) lose(p *piece) {
	if !p.gone() {
		n.log.shipper.count.dropped.Add(counted(p))
	}
}

// gone reports whether the bytes of a piece were on disk and could not be read back.
func (p *piece) gone() bool { return p.data != nil && len(p.data) < p.size }

// counted returns how many bytes of the body's output a piece has: none if it is a note of Oarlock's own.
func counted(p *piece) int64 {
	if p.stream == queue.StreamOarlock {
		return 0
	}
	return int64(p.size)
}

// marker returns the final chunk, with reason. It adds dropped to n.dropped, and if bytes of the log are missing, the text of the
// chunk says how many.
func (n *logState) marker(reason string, dropped int64) queue.Chunk {
	n.dropped += dropped
	c := n.log.at
	c.Seq, c.Stream, c.At, c.Final, c.Reason, c.Dropped = n.next, queue.StreamOarlock, n.log.shipper.config.Now(), true, reason, dropped
	if n.dropped > 0 {
		c.Data = fmt.Appendf(nil, "the log is incomplete: %d bytes were dropped\n", n.dropped)
	}
	n.count.Count(&c)
	return c
}

// unload moves large pieces that were not sent yet to disk. It returns how much memory that frees, which the caller must release,
// even with an error: then the pieces before the failed one are on disk.
func (n *logState) unload() (freed int64, err error) {
	for _, p := range n.large() {
		if err = n.spool.write(p); err != nil {
			return freed, err
		}
		freed += int64(p.size)
	}
	return freed, nil
}

// large returns the pieces that are worth writing to disk: large ones in memory that were not sent yet. They do not change from
// then on.
func (n *logState) large() []*piece {
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
