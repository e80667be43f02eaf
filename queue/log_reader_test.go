package queue

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// at returns a chunk that arrived so many seconds after the epoch of these tests.
func (l attemptLog) at(seq, second int, text string) Chunk {
	c := l.chunk(seq, text)
	c.At = time.Date(2026, 11, 20, 0, 0, second, 0, time.UTC)
	return c
}

func (l attemptLog) lastAt(seq, second int, reason string) Chunk {
	c := l.at(seq, second, "")
	c.Stream, c.Final, c.Reason = StreamOarlock, true, reason
	return c
}

// beganAt sets when the latest attempt of a task began.
func (w *writer) beganAt(tb testing.TB, l attemptLog, second int) {
	tb.Helper()
	w.room.exec(tb, "UPDATE oarlock.tasks SET attempt_at = $5 WHERE (run_id, step, item, alt) = ($1, $2, $3, $4)",
		l.run, l.task.Step, l.task.Item, l.task.Alt, time.Date(2026, 11, 20, 0, 0, second, 0, time.UTC))
}

// interleaved returns a run with tasks that wrote in turns: a failed once, c has two items.
func interleaved(t *testing.T) (*writer, RunID) {
	t.Helper()
	w, claim, a1 := logging(t)
	run := claim.Run
	w.append(t, a1.at(0, 1, "a1\n"), a1.lastAt(1, 2, "failed"))
	a := w.begin(t, run, stepA, 2)
	b := w.begin(t, run, stepB, 1)
	c1, c2 := w.begin(t, run, dagrun.TaskID{Step: 2, Item: "x"}, 1), w.begin(t, run, dagrun.TaskID{Step: 2, Item: "y"}, 1)
	for l, second := range map[attemptLog]int{a: 3, b: 3, c1: 9, c2: 11} {
		w.beganAt(t, l, second)
	}
	w.append(t, a.at(0, 3, "a2\n"), a.at(1, 7, "a7\n"), a.lastAt(2, 8, "succeeded"),
		b.at(0, 4, "b4\n"), b.at(1, 5, "b5\n"), b.at(2, 12, "b12\n"),
		c1.at(0, 10, "x10\n"), c1.at(1, 13, "x13\n"), c2.at(0, 11, "y11\n"))
	return w, run
}

func texts(t *testing.T, r *LogReader) (all []string) {
	t.Helper()
	for _, c := range collect(t, r.Stored(t.Context())) {
		if !c.Final {
			all = append(all, string(bytes.TrimSuffix(c.Data, []byte("\n"))))
		}
	}
	return all
}

func TestLogReader_ReadsInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	w, run := interleaved(t)
	second := func(n int) time.Time { return time.Date(2026, 11, 20, 0, 0, n, 0, time.UTC) }
	for _, c := range []struct { // values of Lines, with the chunk in which the first of these lines may begin
		query LogQuery
		want  []string
	}{
		{LogQuery{}, []string{"a1", "a2", "b4", "b5", "a7", "x10", "y11", "b12", "x13"}},
		{LogQuery{Latest: true}, []string{"a2", "b4", "b5", "a7", "x10", "y11", "b12", "x13"}},
		{LogQuery{Attempt: 1}, []string{"a1", "b4", "b5", "x10", "y11", "b12", "x13"}},
		{LogQuery{Step: "a"}, []string{"a2", "a7"}},
		{LogQuery{Step: "c", Whole: true}, []string{"x10", "y11", "x13"}},
		{LogQuery{Step: "c", Item: "x"}, []string{"x10", "x13"}},
		{LogQuery{Latest: true, Since: second(7)}, []string{"a7", "x10", "y11", "b12", "x13"}},
		{LogQuery{Latest: true, Lines: 1}, []string{"a2", "b5", "a7", "x10", "y11", "b12", "x13"}},
		{LogQuery{Latest: true, Lines: 2, Since: second(11)}, []string{"y11", "b12", "x13"}},
		{LogQuery{Step: "b", Lines: 1}, []string{"b5", "b12"}},
		{LogQuery{Step: "b", Since: second(60)}, nil},
	} {
		c.query.Run = run
		if got := texts(t, w.store.OpenLogs(c.query)); !slices.Equal(got, c.want) {
			t.Errorf("%+v\ngot  %v\nwant %v", c.query, got, c.want)
		}
	}
}

func TestLogReader_GoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	w, run := interleaved(t)
	r := w.store.OpenLogs(LogQuery{Run: run})
	n := 0
	for _, err := range r.Stored(t.Context()) { // the caller leaves the loop half-way
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 4 {
			break
		}
	}
	got := texts(t, r)
	if want := []string{"b5", "a7", "x10", "y11", "b12", "x13"}; !slices.Equal(got, want) {
		t.Errorf("after a break: %v, want %v", got, want)
	}
	if r.Over() || r.Tasks() != 4 || len(r.Steps()) != 3 {
		t.Errorf("over %v, %d tasks, steps %v", r.Over(), r.Tasks(), r.Steps())
	}
	idle := 0
	for c, err := range r.Follow(t.Context(), func() {
		if idle++; idle == 1 {
			b := attemptLog{run: run, task: stepB, attempt: 1, day: LogDay(dagrun.Time(time.Now().UnixMilli()))}
			w.append(t, b.at(3, 14, "b14\n"))
			w.room.end(t, run, "failed")
		}
	}) {
		if err != nil || string(c.Data) != "b14\n" {
			t.Errorf("followed %+v, %v", c, err)
		}
	}
	if idle == 0 || !r.Over() {
		t.Errorf("idle %d times, over %v", idle, r.Over())
	}
}

// A reader keeps in memory only a few chunks of the logs that are under way at a time. The test runs alone, because it measures
// the heap of all tests.
func TestLogReader_KeepsLittleInMemory(t *testing.T) {
	w, claim, _ := logging(t)
	const tasks, chunks, size = 60, 16, 32 << 10 // 30 MiB
	for i := range tasks {
		l := w.begin(t, claim.Run, dagrun.TaskID{Step: 2, Item: fmt.Sprintf("%02d", i)}, 1)
		w.beganAt(t, l, i)
		w.room.exec(t, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data)
			SELECT $1, $2, 2, $3, 0, 1, n, 1, timestamptz '2026-11-20Z' + ($4::int + n) * interval '1 second', decode(repeat('61', $6), 'hex')
			  FROM generate_series(0, $5::int - 1) n`, l.day, claim.Run, l.task.Item, i, chunks, size)
	}
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n, most := 0, uint64(0)
	for c, err := range w.store.OpenLogs(LogQuery{Run: claim.Run}).Stored(t.Context()) {
		if err != nil || len(c.Data) != size {
			t.Fatal(err, len(c.Data))
		}
		if n++; n%200 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
		}
	}
	if n != tasks*chunks {
		t.Errorf("%d chunks, want %d", n, tasks*chunks)
	}
	if limit := uint64(tasks * chunks * size / 3); most > limit {
		t.Errorf("kept %d bytes of %d, more than a third", most, tasks*chunks*size)
	}
}
