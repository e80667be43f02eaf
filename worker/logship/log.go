package logship

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// Log is the log of one attempt.
type Log struct {
	shipper *Shipper
	at      queue.Chunk // Run, Task, Attempt and Day of its chunks
	streams [2]stream

	mu      sync.Mutex
	secrets []string
	maskers [2]masker
	pieces  []*piece // pieces that were not stored yet; the loop removes them from the front
	waiting int64    // bytes in pieces
	dropped int64    // bytes lost since the last piece
	total   int64    // bytes taken, of those that count towards the limit
	full    bool     // the limit was reached
	closed  bool     // Close was called
	adopted bool     // the loop looks after the log
	over    bool     // the last chunks are made: the loop must not touch the log any more
	last    lastLine

	line *logState // owned by the loop
}

// piece is the bytes of one chunk.
type piece struct {
	stream  queue.Stream
	data    []byte // nil: on disk
	size    int
	at      time.Time
	since   time.Time // when its first byte came, on the local clock
	dropped int64     // bytes lost before it
	seq     int
	lines   int64 // Lines of its chunk, once counted
	counted bool
	taken   bool // it does not change any more
	sent    bool // it has a number, and may have been stored
	spooled bool // its bytes are on disk, at offset
	offset  int64
}

// Stdout returns the writer for the body's standard output. Its writes never fail, because a body must not end because of its
// log.
func (l *Log) Stdout() io.Writer { return &l.streams[0] }

// Stderr returns the writer for the body's standard error.
func (l *Log) Stderr() io.Writer { return &l.streams[1] }

// Mask adds secrets that are masked from now on, in both streams. Bytes that were written before are not masked.
func (l *Log) Mask(secrets []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secrets = append(slices.Clip(l.secrets), secrets...)
	patterns := newPatterns(l.secrets)
	for i := range l.maskers {
		l.maskers[i].patterns = patterns
	}
}

type stream struct {
	log *Log
	id  queue.Stream
}

// Write masks p and adds it to the log. It may wait for room in memory. It never fails, even where it drops bytes: see Log.write.
func (s *stream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), ChunkBytes)
		s.log.write(s.id, rest[:n], false)
		rest = rest[n:]
	}
	return len(p), nil
}

// Note adds text as a line of Oarlock's own to the log. It is not masked, so text must hold no secret. If there is no room in
// memory, the line is left out.
func (l *Log) Note(text string) { l.add(queue.StreamOarlock, []byte(text+"\n")) }

// LastLine returns the last line of standard error that is not blank, cut after lastLineBytes and in a form that a text column can
// hold; "": there is none.
func (l *Log) LastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.text()
}

// write masks bytes and adds them to the log. Bytes beyond the limit of the attempt are dropped and counted, with one note in the
// log. Bytes that may be part of a secret are held back until the next write; with end, at the end of the stream, write adds these
// too. After the end of the log it does nothing.
func (l *Log) write(id queue.Stream, p []byte, end bool) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	m := &l.maskers[id-queue.StreamStdout]
	masked := m.mask(p, end)
	if id == queue.StreamStderr {
		l.last.write(masked)
	}
	over := l.limit(int64(len(masked)))
	mark := over > 0 && !l.full
	l.full = l.full || over > 0
	l.mu.Unlock()
	l.add(id, masked[:int64(len(masked))-over])
	if mark {
		l.Note(fmt.Sprintf("the log limit of %d bytes is reached: the rest of the log is dropped", l.shipper.config.AttemptBytes))
	}
	if over > 0 {
		l.mu.Lock()
		l.dropped += over
		l.mu.Unlock()
		l.shipper.count.dropped.Add(over)
	}
}

// limit counts n bytes, and returns how many of them are beyond the limit of the attempt. These are not counted. The caller holds
// l.mu.
func (l *Log) limit(n int64) int64 {
	over := max(0, l.total+n-l.shipper.config.AttemptBytes)
	l.total += n - over
	return over
}

// add waits for room in memory, appends bytes to a stream of the log, and wakes the loop if that has to send them soon. If no room
// comes, the bytes are dropped and counted; a note is dropped without a count.
func (l *Log) add(id queue.Stream, data []byte) {
	if len(data) == 0 {
		return
	}
	most := int64(len(data)) + pieceCost*int64(2+len(data)/ChunkBytes)
	reserved := l.shipper.reserve(most)
	used, signal := l.append(id, data, reserved)
	if reserved && used < most {
		l.shipper.release(most - used)
	}
	if signal != nil {
		rouse(signal)
	}
}

// append adds data to the pieces of the log. reserved means that the caller has reserved memory for them; if not, append drops
// data, and counts it as dropped unless it is a note. After Close it does nothing.
//
// It returns how much of the reserved memory it used; the caller releases the rest. signal is the channel by which the caller must
// wake the loop; nil: not at all.
func (l *Log) append(id queue.Stream, data []byte, reserved bool) (used int64, signal chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, nil
	}
	if !reserved {
		if id != queue.StreamOarlock {
			l.dropped += int64(len(data))
			l.shipper.count.dropped.Add(int64(len(data)))
		}
		return 0, nil
	}
	if l.waiting == 0 {
		signal = l.shipper.soon
	}
	if !l.adopted {
		l.adopted = true
		l.shipper.adopt(l.line)
	}
	if l.waiting += int64(len(data)); l.waiting >= ChunkBytes {
		signal = l.shipper.kick
	}
	for used = int64(len(data)); len(data) > 0; {
		p := l.open(id)
		if p == nil {
			p = l.begin(id)
			used += pieceCost
			if len(data) >= largeWrite {
				p.data = make([]byte, 0, ChunkBytes)
			}
		}
		n := min(len(data), ChunkBytes-p.size)
		p.data, p.size = append(p.data, data[:n]...), p.size+n
		data = data[n:]
	}
	return used, signal
}

// open returns the piece that takes the next bytes of a stream, or nil if the caller must begin a new piece. While the log has
// fewer than piecesInOrder pieces, only the last piece may take them, so that the bytes of all streams stay in order. From
// piecesInOrder pieces on, it may be an earlier piece, the latest of this stream: a body that alternates fast between its streams
// would otherwise make countless small pieces.
//
// A full piece takes nothing more. Pieces that the loop has taken for a call or for the disk, and all pieces before these, take
// nothing either. After bytes were dropped the next piece must be new, because it carries their number. The caller holds l.mu.
func (l *Log) open(id queue.Stream) *piece {
	for i := len(l.pieces) - 1; i >= 0 && l.dropped == 0; i-- {
		p := l.pieces[i]
		switch {
		case p.taken:
			return nil
		case p.stream == id && p.size < ChunkBytes:
			return p
		case p.stream == id || len(l.pieces) < piecesInOrder:
			return nil
		}
	}
	return nil
}

// begin appends an empty piece for a stream. The piece takes over the number of bytes that were dropped before it. The caller holds
// l.mu.
func (l *Log) begin(id queue.Stream) *piece {
	p := &piece{stream: id, at: l.shipper.config.Now(), since: time.Now(), dropped: l.dropped}
	l.dropped = 0
	l.pieces = append(l.pieces, p)
	return p
}

// Close ends the log, with reason in its final marker. It waits until all but the last pieces are stored, as long as the sink
// stores something within each ClosePatience, and for CloseLimit at most. It returns the chunks that are left to be stored, the
// final marker last; a second call returns nil. The caller stores them in the commit of the record of the attempt's end. Some of
// them may be stored already; they are identical.
func (l *Log) Close(reason string) []queue.Chunk {
	for _, id := range []queue.Stream{queue.StreamStdout, queue.StreamStderr} {
		l.write(id, nil, true)
	}
	if !l.end() {
		return nil
	}
	if l.line.tryDetach() {
		return l.line.finish(reason)
	}
	r := request{log: l, reason: reason, reply: make(chan []queue.Chunk, 1)}
	select {
	case l.shipper.requests <- r:
		return <-r.reply
	case <-l.shipper.stopped: // the loop has ended, so it does not own the rest any more
		l.shipper.ending.Lock()
		defer l.shipper.ending.Unlock()
		return l.line.finish(reason)
	}
}

// end makes the log take nothing more, and reports whether it was open.
func (l *Log) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := !l.closed
	l.closed = true
	return was
}
