package logship

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

var errAway = errors.New("the database is away")

func away(context.Context) error { return errAway }

// hang is a call that gets no answer.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return queue.ErrUnknown
}

func TestLog_HandsAShortOneOverWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		s := New(Config{Sink: sink})
		defer s.Close()
		l := s.Open(attempt(1), nil)
		write(t, l.Stdout(), []byte("out\n"))
		write(t, l.Stderr(), []byte("err\n"))
		write(t, l.Stdout(), []byte("more\n"))
		chunks := l.Close("succeeded")
		sink.put(chunks)
		sink.end(t, 1, 13, nil)
		last := chunks[len(chunks)-1]
		if sink.count() != 0 || len(chunks) != 4 || last.Reason != "succeeded" || last.Data != nil || string(chunks[1].Data) != "err\n" || chunks[1].Stream != queue.StreamStderr {
			t.Errorf("%d calls, %+v", sink.count(), chunks)
		}
		if l.LastLine() != "err" || l.Close("again") != nil {
			t.Errorf("last line %q", l.LastLine())
		}
		write(t, l.Stdout(), []byte("too late"))
	})
}

// If another driver does the publish of an attempt, the attempt's log goes on where the first driver left it.
func TestLog_GoesOnFromItsNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		s := New(Config{Sink: sink})
		defer s.Close()
		at := attempt(1)
		at.Seq = 7
		l := s.Open(at, nil)
		write(t, l.Stdout(), []byte("more\n"))
		chunks := l.Close("succeeded")
		if len(chunks) != 2 || chunks[0].Seq != 7 || chunks[1].Seq != 8 || !chunks[1].Final {
			t.Errorf("chunks %+v", chunks)
		}
	})
}

func TestShipper_SendsByAgeBySizeAndFasterWhenWatched(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		bytes   int
		watched bool
		after   time.Duration
	}{
		{"a little", 10, false, FlushInterval},
		{"a little, watched", 10, true, WatchedInterval},
		{"a chunk", ChunkBytes, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			sink := newStore()
			s := New(Config{Sink: sink, Followed: func(queue.RunID) bool { return tt.watched }})
			defer s.Close()
			l := s.Open(attempt(1), nil)
			write(t, l.Stdout(), pattern(tt.bytes))
			synctest.Wait()
			if tt.after > 0 {
				time.Sleep(tt.after - time.Millisecond)
				synctest.Wait()
				if sink.count() != 0 {
					t.Errorf("%s: sent too early", tt.name)
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			if sink.count() != 1 || len(sink.text(1, queue.StreamStdout)) != tt.bytes {
				t.Errorf("%s: %d calls, %d bytes", tt.name, sink.count(), len(sink.text(1, queue.StreamStdout)))
			}
			sink.put(l.Close("succeeded"))
			sink.end(t, 1, tt.bytes, pattern(tt.bytes))
		})
	}
}

func TestShipper_SendsAllAttemptsInOneCallAndOneCallAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		free := make(chan struct{})
		sink.before = func(context.Context) error { <-free; return nil }
		s := New(Config{Sink: sink})
		defer s.Close()
		logs := make([]*Log, 20)
		for i := range logs {
			logs[i] = s.Open(attempt(queue.RunID(i)), nil)
			write(t, logs[i].Stdout(), []byte("x"))
		}
		time.Sleep(FlushInterval)
		synctest.Wait()
		for _, l := range logs {
			write(t, l.Stdout(), []byte("y"))
		}
		time.Sleep(10 * FlushInterval)
		synctest.Wait()
		if sink.count() != 1 || len(sink.calls[0]) != len(logs) {
			t.Errorf("%d calls, the first of %d chunks", sink.count(), len(sink.calls[0]))
		}
		close(free)
		synctest.Wait()
		if sink.count() != 2 {
			t.Errorf("%d calls: what came meanwhile goes in one", sink.count())
		}
		for i, l := range logs {
			sink.put(l.Close("succeeded"))
			sink.end(t, queue.RunID(i), 2, []byte("xy"))
		}
	})
}

func TestLog_KeepsTheOrderOfStreamsButNotForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		s := New(Config{Sink: sink})
		defer s.Close()
		l := s.Open(attempt(1), nil)
		for i := range 10_000 {
			write(t, l.Stdout(), fmt.Appendf(nil, "o%d", i%10))
			write(t, l.Stderr(), []byte("e"))
		}
		chunks := l.Close("succeeded")
		sink.put(chunks)
		sink.end(t, 1, 30_000, nil)
		if len(chunks) > 2*piecesInOrder || string(chunks[0].Data) != "o0" || string(chunks[2].Data) != "o1" {
			t.Errorf("%d chunks", len(chunks))
		}
		if out := sink.text(1, queue.StreamStdout); !strings.HasPrefix(out, "o0o1o2") || len(out) != 20_000 {
			t.Errorf("%d bytes of stdout", len(out))
		}
	})
}

func TestClose_WaitsForWhatCameBeforeTheTail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		sink.before = func(context.Context) error { pass(300 * time.Millisecond); return nil }
		s := New(Config{Sink: sink})
		defer s.Close()
		l := s.Open(attempt(1), nil)
		content := pattern(5*ChunkBytes + 100)
		write(t, l.Stdout(), content)
		start := time.Now()
		chunks := l.Close("succeeded")
		if waited := time.Since(start); waited == 0 || waited > ClosePatience {
			t.Errorf("waited %s", waited)
		}
		size := 0
		for _, c := range chunks {
			size += len(c.Data)
		}
		if size > ChunkBytes {
			t.Errorf("%d bytes ride with the record", size)
		}
		sink.put(chunks)
		sink.end(t, 1, len(content), content)
	})
}

func TestClose_CountsWhatWasNotStoredInTime(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(context.Context) error{"fails": away, "hangs": hang} {
		synctest.Test(t, func(t *testing.T) {
			sink := newStore()
			sink.before = fault
			s := New(Config{Sink: sink})
			l := s.Open(attempt(1), nil)
			content := pattern(20*ChunkBytes + 7)
			write(t, l.Stdout(), content)
			start := time.Now()
			chunks := l.Close("failed")
			if waited := time.Since(start); waited < ClosePatience || waited > ClosePatience+10*time.Millisecond {
				t.Errorf("%s: waited %s", name, waited)
			}
			sink.put(chunks)
			sink.end(t, 1, len(content), content)
			last := chunks[len(chunks)-1]
			if !strings.Contains(string(last.Data), "log is incomplete: ") || last.Reason != "failed" {
				t.Errorf("%s: %+v", name, last)
			}
			s.Close()
		})
	}
}

// If the answer of a call is lost, the call may have stored its chunks, or may store them later: Close returns them again.
func TestClose_HandsOverAgainWhatWasSentWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		sink.after = hang
		s := New(Config{Sink: sink})
		defer s.Close()
		l := s.Open(attempt(1), nil)
		write(t, l.Stdout(), []byte("early "))
		time.Sleep(FlushInterval)
		synctest.Wait()
		write(t, l.Stdout(), []byte("late"))
		chunks := l.Close("succeeded")
		sink.put(chunks)
		sink.end(t, 1, 10, []byte("early late"))
		if len(chunks) != 3 || chunks[0].Seq != 0 || len(sink.rows[1]) != 3 {
			t.Errorf("%+v", chunks)
		}
	})
}

func TestLog_HasALimitAndSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		s := New(Config{Sink: sink, AttemptBytes: 100})
		defer s.Close()
		l := s.Open(attempt(1), nil)
		content := pattern(250)
		write(t, l.Stdout(), content[:90])
		write(t, l.Stdout(), content[90:200])
		write(t, l.Stdout(), content[200:])
		chunks := l.Close("succeeded")
		sink.put(chunks)
		sink.end(t, 1, 250, content)
		if note := sink.text(1, queue.StreamOarlock); note != "the log limit of 100 bytes is reached: the rest of the log is dropped\nthe log is incomplete: 150 bytes were dropped\n" {
			t.Errorf("%q", note)
		}
	})
}

func TestShipper_GivesUpWhatIsNotItsOwnAnyMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		var lost *Log
		sink.after = func(context.Context) error {
			write(t, lost.Stdout(), []byte("z")) // while its chunks are in a call
			return &queue.AppendError{Lost: []queue.RunID{1}}
		}
		s := New(Config{Sink: sink})
		defer s.Close()
		lost = s.Open(attempt(1), nil)
		kept := s.Open(attempt(2), nil)
		for range 10 {
			write(t, lost.Stdout(), []byte("x"))
			write(t, kept.Stdout(), []byte("y"))
			time.Sleep(FlushInterval)
			synctest.Wait()
		}
		sink.put(kept.Close("succeeded"))
		sink.end(t, 2, 10, []byte("yyyyyyyyyy"))
		if held := s.memory.Load(); held != 0 || sink.count() != 10 {
			t.Errorf("%d bytes held, %d calls", held, sink.count())
		}
		lost.Close("lost")
		if got, want := s.Stats(), (Stats{Stored: 10, Dropped: 20}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// A sink that has other chunks by the same numbers refuses a log, although the run is still held: the end of the log is stored, and
// says how much is missing.
func TestShipper_CountsOnceWhatTheSinkRefuses(t *testing.T) {
	t.Parallel()
	t.Run("TheWholeCall", func(t *testing.T) { t.Parallel(); synctest.Test(t, func(t *testing.T) { refused(t, "") }) })
	t.Run("AndWhatFailedBefore", func(t *testing.T) { t.Parallel(); synctest.Test(t, func(t *testing.T) { refused(t, "a note") }) })
}

// refused closes a log after 50 bytes over its limit, when its pieces were in a failed call and the sink refuses the next call. note
// is written after the limit: it carries the number of the lost bytes, and Close holds it back from the next call.
func refused(t *testing.T, note string) {
	t.Helper()
	sink := newStore()
	sink.before = away
	s := New(Config{Sink: sink, AttemptBytes: ChunkBytes})
	defer s.Close()
	l := s.Open(attempt(1), nil)
	write(t, l.Stdout(), pattern(ChunkBytes+50))
	if note != "" {
		l.Note(note)
	}
	time.Sleep(FlushInterval)
	synctest.Wait()
	sink.mu.Lock()
	sink.before = func(context.Context) error { return &queue.AppendError{Conflicts: []queue.RunID{1}} }
	sink.mu.Unlock()
	chunks := l.Close("succeeded")
	last := chunks[len(chunks)-1]
	if text := string(last.Data); len(chunks) != 1 || last.Dropped != ChunkBytes+50 || text != "the log is incomplete: 32818 bytes were dropped\n" {
		t.Errorf("%d chunks, %d bytes dropped, %s", len(chunks), last.Dropped, text)
	}
	if got, want := s.Stats(), (Stats{Dropped: ChunkBytes + 50}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestShipper_ClosedFirstStillAccountsForEveryByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		sink := newStore()
		sink.before = hang
		s := New(Config{Sink: sink, Dir: dir, MemoryBytes: 8 * ChunkBytes})
		l, other := s.Open(attempt(1), nil), s.Open(attempt(2), nil)
		content := pattern(12*ChunkBytes + 5)
		for i := 0; i < len(content); i += 500 {
			write(t, l.Stdout(), content[i:min(i+500, len(content))])
			if i%10_000 == 0 {
				pass(time.Millisecond)
			}
		}
		waiting := make(chan []queue.Chunk)
		write(t, other.Stdout(), content)
		go func() { waiting <- other.Close("drained") }()
		synctest.Wait()
		s.Close()
		sink.put(<-waiting)
		sink.put(l.Close("drained"))
		sink.end(t, 1, len(content), content)
		sink.end(t, 2, len(content), content)
		s.Open(attempt(3), nil).Close("")
	})
}

// For any behaviour of the sink and any output: numbers have no gap, a number always has the same content, the bytes stored and
// dropped are the bytes written, and the marker is last.
func TestShipper_AccountsForEveryByteWhateverTheSinkDoes(t *testing.T) {
	t.Parallel()
	for seed := range int64(60) {
		dir := ""
		if seed%3 > 0 {
			dir = t.TempDir()
		}
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewSource(seed))
			sink := newStore()
			var mu sync.Mutex
			moody := func(ctx context.Context) error {
				mu.Lock()
				mood, nap := random.Intn(12), time.Duration(random.Intn(400))*time.Millisecond
				mu.Unlock()
				switch {
				case mood < 3:
					return errAway
				case mood == 3:
					return hang(ctx)
				case mood < 7:
					pass(nap)
				}
				return nil
			}
			sink.before, sink.after = moody, moody
			s := New(Config{
				Sink: sink, Dir: dir, MemoryBytes: int64(3+random.Intn(20)) * ChunkBytes, SpoolBytes: int64(random.Intn(40)) * ChunkBytes,
				AttemptBytes: int64(1+random.Intn(60)) * ChunkBytes, Followed: func(queue.RunID) bool { return seed%2 == 0 },
			})
			defer s.Close()
			var all sync.WaitGroup
			var written atomic.Int64
			for run := range queue.RunID(1 + random.Intn(4)) {
				script := rand.New(rand.NewSource(seed*100 + int64(run)))
				all.Go(func() { written.Add(int64(oneLog(t, s, sink, run, script))) })
			}
			all.Wait()
			if got := s.Stats(); got.Stored+got.Dropped != written.Load() {
				t.Errorf("seed %d: %+v, written were %d bytes", seed, got, written.Load())
			}
		})
	}
}

// oneLog writes a log, to one stream or both, and checks it. It returns the number of bytes.
func oneLog(t *testing.T, s *Shipper, sink *store, run queue.RunID, random *rand.Rand) int {
	t.Helper()
	l := s.Open(attempt(run), nil)
	content := pattern(random.Intn(30 * ChunkBytes))
	both := random.Intn(3) == 0
	most := 1 << (7 + random.Intn(10))
	for rest := content; len(rest) > 0; {
		n := min(len(rest), 1+random.Intn(most))
		w := l.Stdout()
		if both && random.Intn(2) == 0 {
			w = l.Stderr()
		}
		write(t, w, rest[:n])
		rest = rest[n:]
		if random.Intn(20) == 0 {
			pass(time.Duration(random.Intn(300)) * time.Millisecond)
		}
	}
	sink.put(l.Close("succeeded"))
	if both {
		sink.end(t, run, len(content), nil)
	} else {
		sink.end(t, run, len(content), content)
	}
	return len(content)
}
