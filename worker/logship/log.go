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
	at      queue.Chunk // of which attempt
	streams [2]stream

	mu      sync.Mutex
	secrets []string
	maskers [2]masker
	pieces  []*piece // not sent, or without an answer; the loop takes them off the front
	waiting int64    // bytes in pieces
	dropped int64    // since the last piece
	total   int64    // bytes taken, of those that count
	full    bool     // past its limit
	closed  bool     // nothing more is taken
	adopted bool     // by the loop
	over    bool     // and its last chunks are made: the loop has no business with it any more
	last    lastLine

	line *line // the loop's
}

// piece is what becomes a chunk.
type piece struct {
	stream  queue.Stream
	data    []byte // nil: on disk
	size    int
	at      time.Time
	since   time.Time // on the local clock, when its first byte came
	dropped int64     // bytes lost before it
	seq     int
	lines   int64 // of its chunk, once counted
	counted bool
	taken   bool // does not change any more
	sent    bool // has a number, and may have been stored
	spooled bool // its bytes are on disk, at offset
	offset  int64
}

// Stdout takes what the body writes to its standard output. It never fails: a body must not end for its log.
func (l *Log) Stdout() io.Writer { return &l.streams[0] }

// Stderr takes what the body writes to its standard error.
func (l *Log) Stderr() io.Writer { return &l.streams[1] }

// Mask takes more secrets out of what is written from now on.
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

// Write masks and takes p.
func (s *stream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), ChunkBytes)
		s.log.write(s.id, rest[:n], false)
		rest = rest[n:]
	}
	return len(p), nil
}

// Note adds a line of ours.
func (l *Log) Note(text string) { l.add(queue.StreamOarlock, []byte(text+"\n")) }

// LastLine is the last line with anything on it that was written to standard error, fit for a text column.
func (l *Log) LastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.text()
}

// write masks what came and takes it; at the end of the stream also what the masker held back.
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
		l.Note(fmt.Sprintf("log limit of %d bytes reached: what follows is dropped", l.shipper.config.AttemptBytes))
	}
	if over > 0 {
		l.mu.Lock()
		l.dropped += over
		l.mu.Unlock()
		l.shipper.count.dropped.Add(over)
	}
}

// limit counts n bytes, and says how many of them are too many.
func (l *Log) limit(n int64) int64 {
	over := max(0, l.total+n-l.shipper.config.AttemptBytes)
	l.total += n - over
	return over
}

// add puts bytes at the end of the log, or counts them as dropped.
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

// append says what it used of the memory reserved, and how the loop is to hear of it, if at all.
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

// open is the piece that takes the next bytes of a stream: the last one, or where streams alternate fast, one before it.
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

func (l *Log) begin(id queue.Stream) *piece {
	p := &piece{stream: id, at: l.shipper.config.Now(), since: time.Now(), dropped: l.dropped}
	l.dropped = 0
	l.pieces = append(l.pieces, p)
	return p
}

// Close ends the log. It returns, after a while if need be, the chunks that are left to be stored, the final marker last:
// in the commit of the record that says how the attempt ended. Chunks among them may be stored already; they are the same.
func (l *Log) Close(reason string) []queue.Chunk {
	for _, id := range []queue.Stream{queue.StreamStdout, queue.StreamStderr} {
		l.write(id, nil, true)
	}
	if !l.end() {
		return nil
	}
	if l.line.free() {
		return l.line.finish(reason)
	}
	r := request{log: l, reason: reason, reply: make(chan []queue.Chunk, 1)}
	select {
	case l.shipper.requests <- r:
		return <-r.reply
	case <-l.shipper.stopped: // nobody owns the rest any more
		l.shipper.ending.Lock()
		defer l.shipper.ending.Unlock()
		return l.line.finish(reason)
	}
}

// end says whether the log was open until now.
func (l *Log) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := !l.closed
	l.closed = true
	return was
}
