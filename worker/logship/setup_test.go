package logship

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a sink that stores chunks like the database, and reports chunks that no shipper may send.
type store struct {
	mu     sync.Mutex
	rows   map[queue.RunID][]queue.Chunk
	calls  [][]queue.Chunk
	busy   atomic.Bool
	faults []string

	// before is called before a call stores anything, and after when it has. Their errors become the error of the call.
	before, after func(ctx context.Context) error
}

func newStore() *store {
	return &store{rows: map[queue.RunID][]queue.Chunk{}}
}

func (s *store) AppendLogs(ctx context.Context, chunks []queue.Chunk) error {
	s.enter(chunks)
	defer s.busy.Store(false)
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx); err != nil {
			return err
		}
	}
	s.put(chunks)
	if after != nil {
		return after(ctx)
	}
	return nil
}

// back ends an outage.
func (s *store) back() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = nil
}

func (s *store) enter(chunks []queue.Chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, chunks)
	size := 0
	for _, c := range chunks {
		size += len(c.Data)
	}
	s.check(s.busy.CompareAndSwap(false, true), "two calls at once")
	s.check(len(chunks) <= queue.MaxAppendChunks && size <= queue.MaxAppendBytes, "a call of %d chunks, %d bytes", len(chunks), size)
	for _, c := range chunks {
		s.check(len(c.Data) <= ChunkBytes, "a chunk of %d bytes", len(c.Data))
	}
}

// put stores chunks. A chunk with a known number must be the same as before, and a new number must be the next one.
func (s *store) put(chunks []queue.Chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range chunks {
		rows := s.rows[c.Run]
		switch {
		case c.Seq < len(rows):
			old := rows[c.Seq]
			same := old.Stream == c.Stream && old.Final == c.Final && old.Dropped == c.Dropped && old.Lines == c.Lines && old.At.Equal(c.At) && bytes.Equal(old.Data, c.Data)
			s.check(same, "run %d: chunk %d was sent again with another content", c.Run, c.Seq)
		case c.Seq > len(rows):
			s.check(false, "run %d: chunk %d after %d", c.Run, c.Seq, len(rows)-1)
		default:
			s.check(len(rows) == 0 || !rows[len(rows)-1].Final, "run %d: a chunk after the final one", c.Run)
			c.Data = bytes.Clone(c.Data)
			s.rows[c.Run] = append(rows, c)
		}
	}
}

func (s *store) check(ok bool, format string, args ...any) {
	if !ok {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

// text returns the stored bytes of a stream.
func (s *store) text(run queue.RunID, stream queue.Stream) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	for _, c := range s.rows[run] {
		if c.Stream == stream {
			b.Write(c.Data)
		}
	}
	return b.String()
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// end checks the log of a run that was closed: it must have its marker, and account for every byte. content is the
// written bytes if they went to one stream only.
func (s *store) end(t *testing.T, run queue.RunID, written int, content []byte) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fault := range s.faults {
		t.Error(fault)
	}
	rows := s.rows[run]
	if len(rows) == 0 || !rows[len(rows)-1].Final {
		t.Fatalf("run %d: no final marker after %d chunks", run, len(rows))
	}
	position := 0
	var lines int64
	open := map[queue.Stream]bool{}
	for _, c := range rows {
		position += int(c.Dropped)
		if c.Dropped > 0 {
			clear(open)
		}
		for _, b := range c.Data {
			if !open[c.Stream] {
				lines++
			}
			open[c.Stream] = b != '\n'
		}
		if c.Lines != lines {
			t.Fatalf("run %d: %d lines by the end of chunk %d, it says %d", run, lines, c.Seq, c.Lines)
		}
		if c.Stream == queue.StreamOarlock {
			continue
		}
		if content != nil && (position+len(c.Data) > len(content) || !bytes.Equal(c.Data, content[position:position+len(c.Data)])) {
			t.Fatalf("run %d: chunk %d is not what was written at %d", run, c.Seq, position)
		}
		position += len(c.Data)
	}
	if position != written {
		t.Errorf("run %d: stored and dropped are %d bytes, written were %d", run, position, written)
	}
}

// attempt names a log.
func attempt(run queue.RunID) queue.Chunk {
	return queue.Chunk{Run: run, Attempt: 1, Day: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
}

// pattern returns n bytes in which no part repeats.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

func write(t *testing.T, w io.Writer, p []byte) {
	t.Helper()
	if n, err := w.Write(p); n != len(p) || err != nil {
		t.Errorf("wrote %d of %d: %v", n, len(p), err)
	}
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.NewTimer(d).C }
