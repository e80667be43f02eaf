package logship

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// A sink that is slow but keeps storing gets all of a log, however long that takes.
func TestClose_WaitsWhileMoreIsStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls   int
		dropped bool
	}{"in time": {10, false}, "endless": {100, true}} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			sink := newStore()
			s := New(Config{Sink: sink, Dir: dir})
			defer s.Close()
			sink.before = func(context.Context) error { pass(ClosePatience / 2); return nil }
			l := s.Open(attempt(1), nil)
			content := pattern(c.calls * sendBytes)
			write(t, l.Stdout(), content)
			start := time.Now()
			sink.put(l.Close("succeeded"))
			if waited := time.Since(start); waited < 2*ClosePatience || waited > CloseLimit+10*time.Millisecond {
				t.Errorf("%s: waited %s", name, waited)
			}
			sink.end(t, 1, len(content), content)
			if got := s.Stats().Dropped > 0; got != c.dropped {
				t.Errorf("%s: %+v", name, s.Stats())
			}
		})
	}
}

// Logs that end together wait for each other.
func TestClose_WaitsForItsTurn(t *testing.T) {
	t.Parallel()
	const ending, each = 12, 4 * sendBytes
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		s := New(Config{Sink: sink, MemoryBytes: 2 * ending * each})
		defer s.Close()
		sink.before = func(context.Context) error { pass(ClosePatience / 5); return nil }
		var closing sync.WaitGroup
		for i := range ending {
			l := s.Open(attempt(queue.RunID(i+1)), nil)
			content := pattern(each)
			write(t, l.Stdout(), content)
			closing.Go(func() {
				sink.put(l.Close("succeeded"))
				sink.end(t, queue.RunID(i+1), each, content)
			})
		}
		closing.Wait()
		if got := s.Stats(); got.Dropped > 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A log without room waits as long as others get room, and no log loses bytes.
func TestWrite_WaitsWhileMoreIsStored(t *testing.T) {
	t.Parallel()
	const writers, each = 16, 2 * sendBytes
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		sink.before = func(context.Context) error { pass(WritePatience * 9 / 10); return nil }
		s := New(Config{Sink: sink, MemoryBytes: 2 * sendBytes})
		defer s.Close()
		var writing sync.WaitGroup
		for i := range writers {
			l := s.Open(attempt(queue.RunID(i+1)), nil)
			writing.Go(func() {
				content := pattern(each)
				write(t, l.Stdout(), content)
				sink.put(l.Close("succeeded"))
				sink.end(t, queue.RunID(i+1), each, content)
			})
		}
		writing.Wait()
		if got := s.Stats(); got.Dropped > 0 || got.Stored != writers*each {
			t.Errorf("%+v", got)
		}
	})
}

func TestSpool_CarriesLogsThroughAnOutage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		sink.before = away
		s := New(Config{Sink: sink, Dir: dir, MemoryBytes: 8 * ChunkBytes})
		defer s.Close()
		l := s.Open(attempt(1), nil)
		content := pattern(100*ChunkBytes + 1)
		for i := 0; i < len(content); i += 1000 {
			write(t, l.Stdout(), content[i:min(i+1000, len(content))])
			if held := s.memory.Load(); held > 8*ChunkBytes {
				t.Fatalf("%d bytes in memory", held)
			}
			if i%100_000 == 0 {
				pass(time.Millisecond)
			}
		}
		time.Sleep(time.Minute)
		sink.back()
		time.Sleep(time.Minute)
		sink.put(l.Close("succeeded"))
		sink.end(t, 1, len(content), content)
		if got := len(sink.text(1, queue.StreamStdout)); got != len(content) {
			t.Errorf("stored %d of %d bytes", got, len(content))
		}
		if got := s.Stats(); got.Stored != int64(len(content)) || got.Dropped != 0 || got.Spooled < int64(len(content)/2) {
			t.Errorf("%+v of %d bytes", got, len(content))
		}
		if held := s.memory.Load(); held != 0 {
			t.Errorf("%d bytes of memory are still accounted for", held)
		}
	})
}

// A flood that the sink soon takes goes through memory. A sink that does not answer does not delay a writer for long.
func TestSpool_IsForWhatWaitsTooLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call    time.Duration
		spooled bool
	}{"quick": {10 * time.Millisecond, false}, "hanging": {time.Minute, true}} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			sink := newStore()
			sink.before = func(context.Context) error { pass(c.call); return nil }
			s := New(Config{Sink: sink, Dir: dir, MemoryBytes: 4 * sendBytes})
			defer s.Close()
			l := s.Open(attempt(1), nil)
			content := pattern(10 * sendBytes)
			start := time.Now()
			write(t, l.Stdout(), content)
			if took := time.Since(start); took > WritePatience {
				t.Errorf("%s: the writer was held up for %s", name, took)
			}
			if got := s.Stats(); got.Spooled > 0 != c.spooled || got.Dropped > 0 {
				t.Errorf("%s: %+v", name, got)
			}
			time.Sleep(100 * c.call)
			sink.put(l.Close("succeeded"))
			sink.end(t, 1, len(content), content)
		})
	}
}

func TestSpool_IsBoundedAndBlocksNobody(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"bounded": t.TempDir(), "none": "", "impossible": "/dev/null/no"} {
		synctest.Test(t, func(t *testing.T) {
			sink := newStore()
			sink.before = away
			s := New(Config{Sink: sink, Dir: dir, MemoryBytes: 4 * ChunkBytes, SpoolBytes: 10 * ChunkBytes})
			defer s.Close()
			l := s.Open(attempt(1), nil)
			content := pattern(200 * ChunkBytes)
			start := time.Now()
			write(t, l.Stdout(), content)
			if took := time.Since(start); took > 3*WritePatience {
				t.Errorf("%s: the writer was held up for %s", name, took)
			}
			sink.back()
			time.Sleep(time.Minute)
			write(t, l.Stdout(), []byte("after"))
			sink.put(l.Close("succeeded"))
			sink.end(t, 1, len(content)+5, append(content, "after"...))
			if out := sink.text(1, queue.StreamStdout); !strings.HasSuffix(out, "after") || len(out) > 20*ChunkBytes {
				t.Errorf("%s: %d bytes stored", name, len(out))
			}
		})
	}
}
