package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// plainLines numbers the lines of chunks byte by byte, by the rules of LogLine and LineCounter.
func plainLines(chunks []Chunk) (all []LogLine) {
	open := map[Stream]int{}
	var dropped int64
	for _, c := range chunks {
		if c.Dropped > 0 {
			clear(open)
			dropped += c.Dropped
		}
		for _, b := range c.Data {
			i, goesOn := open[c.Stream]
			if !goesOn {
				i = len(all)
				open[c.Stream] = i
				all = append(all, LogLine{Number: int64(i + 1), Stream: c.Stream, At: c.At, Dropped: dropped})
				dropped = 0
			}
			switch line := &all[i]; {
			case b == '\n':
				delete(open, c.Stream)
			case len(line.Text) == MaxLineBytes:
				line.Cut = true
			default:
				line.Text = append(line.Text, b)
			}
		}
		if c.Final {
			clear(open)
		}
	}
	for _, i := range open {
		all[i].Open = true
	}
	return all
}

// random returns a log of many short and some long lines, of all streams, cut anywhere.
func (l attemptLog) random(r *rand.Rand) (chunks []Chunk) {
	var counter LineCounter
	for i := range 1 + r.IntN(40) {
		size, some := r.IntN(30), 3
		if r.IntN(12) == 0 {
			size, some = r.IntN(MaxChunkBytes), 20_000
		}
		data := make([]byte, size)
		for k := range data {
			if data[k] = "ab\r\x00\xff"[r.IntN(5)]; r.IntN(some) == 0 {
				data[k] = '\n'
			}
		}
		c := l.chunk(i, string(data))
		if c.Stream = Stream(1 + r.IntN(2)); r.IntN(9) == 0 {
			c.Stream = StreamOarlock
		}
		if r.IntN(15) == 0 {
			c.Dropped = 1 + r.Int64N(99)
		}
		counter.Count(&c)
		chunks = append(chunks, c)
	}
	if r.IntN(2) == 0 {
		c := l.last(len(chunks), "succeeded")
		if r.IntN(2) == 0 {
			c.Data, c.Dropped = []byte("log incomplete\n"), r.Int64N(2)
		}
		counter.Count(&c)
		chunks = append(chunks, c)
	}
	return chunks
}

func window(tb testing.TB, s *Store, q LogWindowQuery) *LogWindow {
	tb.Helper()
	w, err := s.LogWindow(tb.Context(), q)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func ofStream(lines []LogLine, stream *Stream) []LogLine {
	return slices.DeleteFunc(slices.Clone(lines), func(l LogLine) bool { return stream != nil && l.Stream != *stream })
}

func wantLogLines(t *testing.T, what string, got, want []LogLine) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d lines, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		g, w := got[i], want[i]
		if g.Cut { // the window did not look for the end of the line
			g.Open, w.Open = false, false
		}
		if g.Number != w.Number || g.Stream != w.Stream || !g.At.Equal(w.At) || !bytes.Equal(g.Text, w.Text) || g.Cut != w.Cut || g.Dropped != w.Dropped || g.Open != w.Open {
			t.Errorf("%s: line %s, want %s", what, shownLine(g), shownLine(w))
			return
		}
	}
}

func shownLine(l LogLine) string {
	return fmt.Sprintf("%d of stream %d: %.40q of %d bytes, cut %v, dropped %d, open %v", l.Number, l.Stream, l.Text, len(l.Text), l.Cut, l.Dropped, l.Open)
}

// Every window of a random log shows what a plain count of the whole log gives, and still does when the log has grown.
func TestLogWindow_EqualsAPlainCount(t *testing.T) {
	t.Parallel()
	w, claim, _ := logging(t)
	logs := uint64(12)
	if Nightly() {
		logs = 200
	}
	for seed := range logs {
		r := rand.New(rand.NewPCG(seed, 1))
		log := w.begin(t, claim.Run, stepA, int(seed)+1)
		chunks := log.random(r)
		half := r.IntN(len(chunks))
		for _, upto := range []int{half, len(chunks)} {
			w.append(t, chunks[:upto]...)
			checkWindows(t, w, log, r, chunks[:upto])
		}
	}
}

func checkWindows(t *testing.T, w *writer, log attemptLog, r *rand.Rand, chunks []Chunk) {
	t.Helper()
	all := plainLines(chunks)
	total := int64(len(all))
	streams := []*Stream{nil, given(StreamStdout), given(StreamStderr)}
	for from := int64(0); from < total+3; from += 1 + r.Int64N(2+total/15) {
		q := LogWindowQuery{Run: log.run, Step: "a", From: from, Lines: []int{1, 2, 9, MaxWindowLines}[r.IntN(4)], Stream: streams[r.IntN(3)]}
		want := ofStream(all[min(max(from-1, 0), total):], q.Stream)
		if from == 0 {
			want = want[max(0, len(want)-q.Lines):]
		} else {
			want = want[:min(len(want), q.Lines)]
		}
		got := window(t, w.store, q)
		what := fmt.Sprintf("attempt %d, %d chunks, from %d, %d lines, stream %v", log.attempt, len(chunks), from, q.Lines, q.Stream != nil)
		wantLogLines(t, what, got.Lines, want)
		if final := len(chunks) > 0 && chunks[len(chunks)-1].Final; got.Total != total || got.Final != final || got.Attempt != log.attempt {
			t.Errorf("%s: attempt %d, %d lines in all, final %v; want %d, %v", what, got.Attempt, got.Total, got.Final, total, final)
		}
	}
}

// If a log's own worker did not end it, another process does, and counts on from the stored lines.
func TestLogWindow_ShowsAnothersFinalMarker(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, w *writer, run RunID){
		"the next driver": func(t *testing.T, w *writer, run RunID) {
			next := w.room.writer(t)
			claim := next.hold(t, run)
			next.reads = newDedicatedConn(next.chunks.config)
			t.Cleanup(func() { _ = next.reads.close(context.Background()) })
			loaded, err := next.Load(t.Context(), []*Claim{claim})
			if err != nil {
				t.Fatal(err)
			}
			left := loaded[0].Logs[0]
			next.append(t, Chunk{
				Run: run, Task: left.Task, Attempt: left.Attempt, Day: left.Day, Seq: left.Next, Lines: left.Lines, At: time.Now(), Final: true, Reason: "lost",
			})
		},
		"a cancel without a driver": func(t *testing.T, w *writer, run RunID) {
			w.room.exec(t, "SELECT oarlock.cancel_tasks(r, 'canceled by ann', now()) FROM oarlock.runs r WHERE r.run_id = $1", run)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, claim, log := logging(t)
			var counter LineCounter
			first, second := log.chunk(0, "a\nb\n"), log.chunk(1, "c")
			counter.Count(&first)
			counter.Count(&second)
			w.append(t, first, second)
			end(t, w, claim.Run)
			for from, want := range map[int64]int{0: 3, 1: 3, 3: 1, 4: 0} {
				got := window(t, w.store, LogWindowQuery{Run: claim.Run, Step: "a", From: from})
				if len(got.Lines) != want || got.Total != 3 || got.End != 4 || !got.Final || got.Reason != "lost" {
					t.Errorf("from %d: %+v", from, got)
				}
				if n := len(got.Lines); n > 0 && got.Lines[n-1].Open {
					t.Errorf("from %d: the last line is open", from)
				}
			}
		})
	}
}

// A writer that continues another writer's log does not know whether the last line had ended, so it begins a new one.
func TestLogWindow_ShowsWhatTwoWritersWrote(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	first, second := log.chunk(0, "a\nb"), log.chunk(1, "c\n")
	var counter LineCounter
	counter.Count(&first)
	(&LineCounter{Lines: counter.Lines}).Count(&second)
	w.append(t, first, second)
	got := window(t, w.store, LogWindowQuery{Run: claim.Run, Step: "a"})
	var shown []string
	for _, line := range got.Lines {
		shown = append(shown, fmt.Sprintf("%d %s %v", line.Number, line.Text, line.Open))
	}
	if want := []string{"1 a false", "2 b false", "3 c false"}; !slices.Equal(shown, want) {
		t.Errorf("%v, want %v", shown, want)
	}
}

func TestLogWindow_OfALogThatIsNotThere(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	other := w.room.storeOf(t, "oarlock_submit")
	for what, err := range map[string]error{
		"run":       errorOf(w.store.LogWindow(t.Context(), LogWindowQuery{Run: 1 << 40, Step: "a"})),
		"step":      errorOf(w.store.LogWindow(t.Context(), LogWindowQuery{Run: claim.Run, Step: "nope"})),
		"submitter": errorOf(other.LogWindow(t.Context(), LogWindowQuery{Run: claim.Run, Step: "a"})),
		"search":    errorOf(other.SearchLog(t.Context(), LogSearch{Run: claim.Run, Step: "a", Pattern: regexp.MustCompile("")})),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", what, err)
		}
	}
	for what, q := range map[string]LogWindowQuery{"empty": {Step: "a"}, "attempt": {Step: "a", Attempt: 9}, "no log": {Step: "b"}} {
		q.Run = claim.Run
		if got := window(t, w.store, q); len(got.Lines) != 0 || got.Total != 0 || got.Final || got.Begin != 1 || got.End != 1 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	w.room.exec(t, "UPDATE oarlock.tasks SET state = 'succeeded', finished_at = now()")
	if got := window(t, w.store, LogWindowQuery{Run: claim.Run, Step: "a"}); !got.Final || got.Reason != "succeeded" || got.Attempt != log.attempt {
		t.Errorf("an attempt that wrote nothing: %+v", got)
	}
}

// long stores a log of n chunks of so many bytes, in each of which a line ends and another begins.
func (w *writer) long(tb testing.TB, log attemptLog, n, size int) {
	tb.Helper()
	w.room.exec(tb, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, lines)
		SELECT $1, $2, $3, '', 0, $4, n, 1 + n / 7 % 2, now(), convert_to(repeat('x', $6 - 8) || E'\n' || lpad(n::text, 7, '0'), 'UTF8'),
		       -- a stream's first chunk begins two lines, each other one
		       n + CASE WHEN n < 7 THEN 2 ELSE 3 END
		  FROM generate_series(0, $5::int - 1) n`, log.day, log.run, log.task.Step, log.attempt, n, size)
}

// buffers returns how much a window reads, and rows how many rows it returns.
func (w *writer) buffers(tb testing.TB, q LogWindowQuery) (buffers, rows int) {
	tb.Helper()
	var text []byte
	if err := w.room.conn.QueryRow(tb.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+logWindowSQL, pgx.StrictNamedArgs{
		"run": q.Run, "step": q.Step, "item": "", "attempt": nil, "first": q.From, "most": q.Lines, "stream": q.Stream, "bytes": windowBytes,
	}).Scan(&text); err != nil {
		tb.Fatal(err)
	}
	p := pgtest.Explained(tb, text)
	return p.Buffers(), int(p.Rows)
}

func TestLogWindow_ReadsLittleOfALongLog(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	n := 16_000
	if Nightly() {
		n = 1_000_000
	}
	w.long(t, log, n, 60)
	w.room.exec(t, "ANALYZE oarlock.log_chunks")
	const most = 300 // the log has thousands
	if table := found[int](t, w.room, "SELECT sum(pg_relation_size(relid))::int / 8192 FROM pg_partition_tree('oarlock.log_chunks')"); table <= most {
		t.Fatalf("the log has %d blocks", table)
	}
	total := window(t, w.store, LogWindowQuery{Run: claim.Run, Step: "a", Lines: 1}).Total
	if total != int64(n)+2 {
		t.Fatalf("%d lines of %d chunks", total, n)
	}
	for _, from := range []int64{0, 1, total / 3, total - 100, total, total + 1} {
		q := LogWindowQuery{Run: claim.Run, Step: "a", From: from, Lines: 100}
		w.buffers(t, q) // catalogs are read once
		buffers, rows := w.buffers(t, q)
		t.Logf("from %7d: %d rows, %d buffers", from, rows, buffers)
		if buffers > most {
			t.Errorf("from %d of %d: %d buffers, at most %d", from, total, buffers, most)
		}
		got := window(t, w.store, q)
		if want := min(100, total-max(got.Begin, 1)+1); int64(len(got.Lines)) != want {
			t.Errorf("from %d: %d lines, want %d", from, len(got.Lines), want)
		}
	}
}

// Lines without an end cost no window more than its bound, and do not keep a window from going on.
func TestLogWindow_IsBounded(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	var chunks []Chunk
	var counter LineCounter
	for i := range 120 { // 7 MiB: two lines of 1 MiB and more, in turns with short ones of another stream
		c := log.chunk(i, strings.Repeat("x", MaxChunkBytes))
		switch {
		case i%40 == 39:
			c.Data[100] = '\n'
		case i%3 == 2:
			c.Stream, c.Data = StreamStderr, []byte(strings.Repeat(strings.Repeat("e", 99)+"\n", 600))
		}
		counter.Count(&c)
		chunks = append(chunks, c)
	}
	for part := range slices.Chunk(chunks, 10) {
		w.append(t, part...)
	}
	all := plainLines(chunks)
	var got []LogLine
	for from := int64(1); from <= int64(len(all)); {
		part, err := w.store.readWindow(t.Context(), LogWindowQuery{Run: claim.Run, Step: "a", From: from, Lines: searchLines})
		if err != nil {
			t.Fatal(err)
		}
		if part.Begin != from || part.End <= from || part.bytes > windowBytes*5/4+2*MaxChunkBytes {
			t.Fatalf("from %d: %d up to %d, %d bytes", from, part.Begin, part.End, part.bytes)
		}
		got, from = append(got, part.Lines...), part.End
	}
	wantLogLines(t, "window by window", got, all)
	tail := window(t, w.store, LogWindowQuery{Run: claim.Run, Step: "a", Lines: MaxWindowLines})
	wantLogLines(t, "the last lines", tail.Lines, all[len(all)-MaxWindowLines:])

	endless := w.begin(t, claim.Run, stepB, 1)
	counter = LineCounter{}
	for i := range 40 {
		c := endless.chunk(i, strings.Repeat("y", MaxChunkBytes))
		counter.Count(&c)
		w.append(t, c)
	}
	for _, from := range []int64{0, 1} {
		one := window(t, w.store, LogWindowQuery{Run: claim.Run, Step: "b", From: from})
		if len(one.Lines) != 1 || one.Lines[0].Number != 1 || !one.Lines[0].Cut || len(one.Lines[0].Text) != MaxLineBytes {
			t.Errorf("from %d of one endless line: %d lines, %d in all", from, len(one.Lines), one.Total)
		}
	}
}

// A window takes one statement, wherever it is. A read after a second without one also pings its connection, so the fewest messages
// of several reads count.
func TestLogWindow_IsOneStatement(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	w.long(t, log, 100, 60)
	for _, from := range []int64{0, 50} {
		fewest := math.MaxInt
		for range 10 { // the first one prepares the statement
			before := w.proxy.Counts().FromClient
			window(t, w.store, LogWindowQuery{Run: claim.Run, Step: "a", From: from})
			fewest = min(fewest, w.proxy.Counts().FromClient-before)
		}
		if fewest != 3 { // Bind, Execute, Sync
			t.Errorf("from %d: %d messages, want those of one statement", from, fewest)
		}
	}
}

func TestSearchLog_EqualsAPlainSearch(t *testing.T) {
	t.Parallel()
	w, claim, _ := logging(t)
	pattern := regexp.MustCompile(`ab.?b|a$`)
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 3))
		log := w.begin(t, claim.Run, stepA, int(seed)+1)
		chunks := log.random(r)
		w.append(t, chunks...)
		q := LogSearch{Run: claim.Run, Step: "a", Pattern: pattern, Hits: 1 + r.IntN(5), MaxBytes: 1 + r.Int64N(1000)}
		if seed%3 == 0 {
			q.Stream = given(StreamStderr)
		}
		var got []LogLine
		for {
			hits, err := w.store.SearchLog(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(hits.Lines) > q.Hits {
				t.Errorf("%d hits, at most %d", len(hits.Lines), q.Hits)
			}
			got = append(got, hits.Lines...)
			if hits.Final && hits.Next != 0 {
				t.Error("final, and there is more")
			}
			if q.From = hits.Next; q.From == 0 {
				break
			}
		}
		want := slices.DeleteFunc(ofStream(plainLines(chunks), q.Stream), func(l LogLine) bool { return !pattern.Match(bytes.TrimSuffix(l.Text, []byte("\r"))) })
		wantLogLines(t, fmt.Sprintf("seed %d", seed), got, want)
	}
}

// A search stops at its bounds, and goes on where it stopped.
func TestSearchLog_StopsAtItsBounds(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	w.long(t, log, 200, 32<<10) // 6 MiB
	q := LogSearch{Run: claim.Run, Step: "a", Pattern: regexp.MustCompile(`^nothing like it`), MaxBytes: 2 << 20}
	searches := 0
	for {
		hits, err := w.store.SearchLog(t.Context(), q)
		if err != nil || len(hits.Lines) > 0 {
			t.Fatal(hits, err)
		}
		searches++
		if q.From = hits.Next; q.From == 0 {
			break
		}
	}
	if searches < 3 || searches > 4 {
		t.Errorf("looked through 6 MiB by 2 in %d searches", searches)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.store.SearchLog(ctx, q); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that could not begin: %v", err)
	}
}
