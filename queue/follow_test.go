package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
)

// lines shows chunks as stored does.
func lines(chunks []Chunk) []string {
	var all []string
	for _, c := range chunks {
		line := strings.TrimSpace(fmt.Sprintf("%s %s", c.Step, c.Task.Item))
		line = strings.TrimSpace(fmt.Sprintf("%s %d %d %s %s", line, c.Attempt, c.Seq, c.Data, c.Reason))
		all = append(all, line)
	}
	return all
}

func wantLines(t *testing.T, got []Chunk, want ...string) {
	t.Helper()
	if lines := lines(got); !slices.Equal(lines, want) {
		t.Errorf("read\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

func readLogs(t *testing.T, s *Store, q LogQuery) []Chunk {
	t.Helper()
	chunks, err := s.ReadLogs(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

// told is a run with logs of several tasks and attempts.
func told(t *testing.T) (*writer, RunID) {
	t.Helper()
	w, claim, a1 := logging(t)
	run := claim.Run
	a1.day = a1.day.AddDate(0, 0, -20) // no partition of its own
	w.room.exec(t, "UPDATE oarlock.tasks SET log_day = $1", a1.day)
	w.append(t, a1.chunk(0, "one"), a1.last(1, "failed"))
	a2 := w.begin(t, run, stepA, 2)
	w.append(t, a2.chunk(0, "two"), a2.chunk(1, "three"), a2.last(2, "succeeded"))
	other := w.begin(t, run, dagrun.TaskID{Step: 1, Alt: 1}, 1)
	item := w.begin(t, run, dagrun.TaskID{Step: 2, Item: "k"}, 1)
	w.append(t, other.chunk(0, "instead"), item.chunk(0, "item"))
	return w, run
}

func TestReadLogs_PicksByTaskAndAttempt(t *testing.T) {
	t.Parallel()
	w, run := told(t)
	for _, c := range []struct {
		query LogQuery
		want  []string
	}{
		{LogQuery{Step: "a"}, []string{"2 0 two", "2 1 three", "2 2  succeeded"}},
		{LogQuery{Step: "a", Attempt: 1}, []string{"1 0 one", "1 1  failed"}},
		{LogQuery{Step: "a", From: 1, Limit: 1}, []string{"2 1 three"}},
		{LogQuery{Step: "a", From: 3}, nil},
		{LogQuery{Step: "a", Attempt: 7}, nil},
		{LogQuery{Step: "b"}, nil},
		{LogQuery{Step: "b~1"}, []string{"1 0 instead"}},
		{LogQuery{Step: "b", Alt: 1}, []string{"1 0 instead"}},
		{LogQuery{Step: "c"}, nil},
		{LogQuery{Step: "c", Item: "k"}, []string{"k 1 0 item"}},
		{LogQuery{}, []string{"a 1 0 one", "a 1 1  failed", "a 2 0 two", "a 2 1 three", "a 2 2  succeeded", "b~1 1 0 instead", "c k 1 0 item"}},
	} {
		c.query.Run = run
		wantLines(t, readLogs(t, w.store, c.query), c.want...)
	}
}

func TestReadLogs_PagesThroughARun(t *testing.T) {
	t.Parallel()
	w, run := told(t)
	all := readLogs(t, w.store, LogQuery{Run: run})
	for _, size := range []int{1, 2, 3, 100} {
		var got []Chunk
		for q := (LogQuery{Run: run, Limit: size}); ; {
			page := readLogs(t, w.store, q)
			if len(page) == 0 {
				break
			}
			if len(page) > size {
				t.Fatalf("%d chunks in a page of %d", len(page), size)
			}
			got = append(got, page...)
			q.Last = &got[len(got)-1]
		}
		if !slices.Equal(lines(got), lines(all)) {
			t.Errorf("pages of %d: %v", size, lines(got))
		}
	}
}

func TestReadLogs_ReturnsWhatWasAppended(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	want := log.last(0, "exit")
	want.Data, want.Dropped, want.Stream = []byte{0, 255, '\n'}, 9, StreamStderr
	w.append(t, want)
	got := readLogs(t, w.store, LogQuery{Run: claim.Run, Step: "a"})
	if len(got) != 1 || !got[0].At.Equal(want.At) || !got[0].Day.Equal(want.Day) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	got[0].At, got[0].Day = want.At, want.Day
	if fmt.Sprintf("%+v", got[0]) != fmt.Sprintf("%+v", want) {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
}

func TestReadLogs_ShowsSubmittersTheirOwnOnly(t *testing.T) {
	t.Parallel()
	w := newLogBundle(t).writer(t)
	one, two, reader := w.room.storeOf(t, "oarlock_submit"), w.room.storeOf(t, "oarlock_submit"), w.room.storeOf(t, "oarlock_read")
	run, err := one.Enqueue(t.Context(), Request{DAG: "log"})
	if err != nil {
		t.Fatal(err)
	}
	w.hold(t, run)
	log := w.begin(t, run, stepA, 1)
	w.append(t, log.chunk(0, "mine"), log.last(1, "succeeded"))
	w.room.end(t, run, "succeeded")
	for name, s := range map[string]*Store{"submitter": one, "reader": reader, "worker": w.store} {
		wantLines(t, readLogs(t, s, LogQuery{Run: run, Step: "a"}), "1 0 mine", "1 1  succeeded")
		if got := collect(t, s.FollowLogs(t.Context(), LogQuery{Run: run})); len(got) != 2 {
			t.Errorf("%s followed %v", name, lines(got))
		}
		if r, err := s.Await(t.Context(), run); err != nil || r.State != "succeeded" {
			t.Errorf("%s awaited %+v, %v", name, r, err)
		}
	}
	for what, err := range map[string]error{
		"read":    errorOf(two.ReadLogs(t.Context(), LogQuery{Run: run, Step: "a"})),
		"missing": errorOf(one.ReadLogs(t.Context(), LogQuery{Run: 1 << 40})),
		"step":    errorOf(one.ReadLogs(t.Context(), LogQuery{Run: run, Step: "nope"})),
		"follow":  lastError(two.FollowLogs(t.Context(), LogQuery{Run: run})),
		"watch":   lastError(two.Watch(t.Context(), run)),
		"await":   errorOf(two.Await(t.Context(), run)),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", what, err)
		}
	}
}

func errorOf(_ any, err error) error { return err }

func lastError[T any](all iter.Seq2[T, error]) (last error) {
	for _, err := range all {
		last = err
	}
	return last
}

func collect[T any](t *testing.T, all iter.Seq2[T, error]) (got []T) {
	t.Helper()
	for v, err := range all {
		if err != nil {
			t.Error(err)
			break
		}
		got = append(got, v)
	}
	return got
}

func TestFollowLogs_YieldsWhatComes(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	w.append(t, log.chunk(0, "before"))
	steps := []func(){
		func() { w.append(t, log.chunk(1, "more")) },
		func() { w.append(t, log.last(2, "failed")) },
		func() {
			again := w.begin(t, claim.Run, stepA, 2)
			other := w.begin(t, claim.Run, stepB, 1)
			w.append(t, again.chunk(0, "again"), other.chunk(0, "other"))
		},
		func() {},
		func() { w.room.end(t, claim.Run, "failed") },
	}
	var got []Chunk
	for c, err := range w.store.FollowLogs(t.Context(), LogQuery{Run: claim.Run}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
		steps[0]()
		steps = steps[1:]
	}
	wantLines(t, got, "a 1 0 before", "a 1 1 more", "a 1 2  failed", "a 2 0 again", "b 1 0 other")
	if n := found[int](t, w.room, "SELECT count(*) FROM oarlock.followers"); n != 0 {
		t.Errorf("%d followers are left", n)
	}
}

func TestFollowLogs_EndsWithTheAttemptItNames(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	w.append(t, log.chunk(0, "x"))
	var got []Chunk
	for c, err := range w.store.FollowLogs(t.Context(), LogQuery{Run: claim.Run, Step: "a", Attempt: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, c); len(got) == 1 {
			w.append(t, log.last(1, "failed"))
			w.append(t, w.begin(t, claim.Run, stepA, 2).chunk(0, "y"))
		}
	}
	wantLines(t, got, "1 0 x", "1 1  failed")
}

func TestFollowLogs_GoesOnWithTheNextAttempt(t *testing.T) {
	t.Parallel()
	w, run := told(t)
	var got []Chunk
	for c, err := range w.store.FollowLogs(t.Context(), LogQuery{Run: run, Step: "a", From: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, c); len(got) == 2 {
			for n := 3; n < 6; n++ {
				w.append(t, w.begin(t, run, stepA, n).last(0, "failed"))
			}
			w.room.end(t, run, "failed")
		}
	}
	wantLines(t, got, "2 1 three", "2 2  succeeded", "3 0  failed", "4 0  failed", "5 0  failed")
}

// A chunk of a followed log is announced: no poll is needed.
func TestFollowLogs_HearsOfEachAppend(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	next, stop := iter.Pull2(w.store.FollowLogs(t.Context(), LogQuery{Run: claim.Run}))
	defer stop()
	w.append(t, log.chunk(0, "x"))
	if _, err, _ := next(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 5 {
			_, _, _ = next()
		}
	}()
	await.True(t, "the follower registered", func() bool { return found[int](t, w.room, "SELECT count(*) FROM oarlock.followers WHERE logs") == 1 })
	started := time.Now()
	for n := 1; n < 6; n++ {
		w.append(t, log.chunk(n, "x"))
		if !w.Followed(claim.Run) {
			t.Error("the worker does not know that somebody follows")
		}
	}
	<-done
	if took := time.Since(started); took > 5*followPoll { // one poll each would take as long
		t.Errorf("five chunks took %s", took)
	}
}

// G4: whatever becomes of the listener and its connections, each chunk comes once and in order.
func TestFollowLogs_YieldsEachChunkOnceWhileConnectionsDie(t *testing.T) {
	t.Parallel()
	w, claim, _ := logging(t)
	const attempts, chunks = 4, 60
	login := w.room.login(t, "oarlock_read")
	var followers sync.WaitGroup
	got := make([][]Chunk, 2)
	for i := range got {
		s := openStore(t, Config{URL: login})
		followers.Go(func() {
			for c, err := range s.FollowLogs(t.Context(), LogQuery{Run: claim.Run}) {
				if err != nil {
					t.Error(err)
					return
				}
				got[i] = append(got[i], c)
			}
		})
	}
	write(t, w, claim.Run, attempts, chunks)
	w.room.end(t, claim.Run, "succeeded")
	followers.Wait()
	for i := range got {
		wantEachOnce(t, got[i], attempts, chunks)
	}
}

// kill ends the followers' listeners, and now and then a connection on which one of them reads.
func (r *logBundle) kill(t *testing.T) {
	t.Helper()
	r.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename LIKE 'u%'
		AND application_name NOT LIKE 'oarlock/%' AND (application_name = 'oarlock listen' OR random() < 0.1)`)
}

// write appends so many chunks to so many attempts of one step and as many of another, in turns, while connections die.
func write(t *testing.T, w *writer, run RunID, attempts, chunks int) {
	t.Helper()
	for attempt := 1; attempt <= attempts; attempt++ {
		a, b := w.begin(t, run, stepA, attempt), w.begin(t, run, stepB, attempt)
		for n := 0; n < chunks; {
			var batch []Chunk
			for range min(1+rand.N(4), chunks-n) {
				batch = append(batch, a.chunk(n, "a"), b.chunk(n, "b"))
				n++
			}
			w.append(t, batch...)
			w.room.kill(t)
		}
		w.append(t, a.last(chunks, "done"), b.last(chunks, "done"))
	}
}

func wantEachOnce(t *testing.T, got []Chunk, attempts, chunks int) {
	t.Helper()
	next := map[attemptKey]int{}
	for _, c := range got {
		if key := c.attempt(); c.Seq != next[key] {
			t.Errorf("step %s attempt %d: chunk %d where %d is next", c.Step, c.Attempt, c.Seq, next[key])
		}
		next[c.attempt()] = c.Seq + 1
	}
	if want := 2 * attempts * (chunks + 1); len(got) != want || len(next) != 2*attempts {
		t.Errorf("%d chunks of %d attempts, want %d of %d", len(got), len(next), want, 2*attempts)
	}
}

func TestFollowLogs_WaitsOutAnOutage(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	w.append(t, log.chunk(0, "x"))
	next, stop := iter.Pull2(w.store.FollowLogs(t.Context(), LogQuery{Run: claim.Run}))
	defer stop()
	if _, err, ok := next(); err != nil || !ok {
		t.Fatal(err)
	}
	w.proxy.Refuse(true)
	w.proxy.CutAll()
	result := make(chan Chunk, 1)
	go func() {
		c, _, _ := next()
		result <- c
	}()
	await.True(t, "several tries", func() bool { return w.proxy.Counts().Open == 0 && w.proxy.Counts().Accepted > 20 })
	w.proxy.Refuse(false)
	w.append(t, log.chunk(1, "y"))
	if c := <-result; c.Seq != 1 {
		t.Errorf("got chunk %+v, want number 1", c)
	}
}

func TestFollowLogs_ReadsFastWriters(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	var chunks []Chunk
	for n := range (maxReadsInPass+2)*maxReadChunks + 7 {
		chunks = append(chunks, log.chunk(n, "x"))
	}
	w.append(t, chunks...)
	w.append(t, w.begin(t, claim.Run, stepB, 1).last(0, "done"))
	n, ended := 0, false
	started := time.Now()
	for c, err := range w.store.FollowLogs(t.Context(), LogQuery{Run: claim.Run}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == len(chunks)+1 {
			w.room.end(t, claim.Run, "succeeded")
		}
		ended = ended || c.Final
	}
	if n != len(chunks)+1 || !ended {
		t.Errorf("%d chunks, want %d", n, len(chunks)+1)
	}
	if took := time.Since(started); took > patience {
		t.Errorf("took %s", took)
	}
}

// A flush that was under way when a follower registered does not know about it.
func TestFollower_LooksAgainSoonAfterItRegistered(t *testing.T) {
	t.Parallel()
	f := &follower{}
	if got := f.patience(); got != followPoll {
		t.Errorf("unregistered it waits %v", got)
	}
	f.registered = time.Now()
	for _, want := range append(freshly[:], followPoll, followPoll) {
		if got := f.patience(); got != want {
			t.Errorf("it waits %v, want %v", got, want)
		}
	}
}

func TestFollowLogs_LeavesWithItsCaller(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{"listening": {}, "polling": {PollOnly: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, claim, log := logging(t)
			config.URL = w.room.login(t, "oarlock_read")
			s := openStore(t, config)
			w.append(t, log.chunk(0, "x"), log.chunk(1, "y"))
			for range s.FollowLogs(t.Context(), LogQuery{Run: claim.Run}) {
				break
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			for _, err := range s.FollowLogs(ctx, LogQuery{Run: claim.Run}) {
				if n++; n == 2 {
					cancel()
				}
				if n > 2 && !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want Canceled", err)
				}
			}
			if n != 3 {
				t.Errorf("%d values, want two chunks and an error", n)
			}
			if n := found[int](t, w.room, "SELECT count(*) FROM oarlock.followers"); n != 0 {
				t.Errorf("%d followers are left", n)
			}
		})
	}
}

// A log is deleted with its run, or when its day is past the retention of every DAG. Other logs stay.
func TestPrune_TakesLogsWithTheirRunOnly(t *testing.T) {
	t.Parallel()
	w, run := told(t)
	claim := w.hold(t, w.room.enqueue(t))
	w.append(t, w.begin(t, claim.Run, stepA, 1).chunk(0, "stays"))
	w.room.end(t, run, "succeeded")
	w.room.exec(t, "SELECT oarlock.prune()")
	wantLines(t, readLogs(t, w.store, LogQuery{Run: run}), "a 1 0  failed", "a 2 0 two", "a 2 1 three", "a 2 2  succeeded", "b~1 1 0 instead", "c k 1 0 item")
	late := w.hold(t, w.room.enqueue(t))
	old := w.begin(t, late.Run, stepA, 1)
	old.day = old.day.AddDate(0, 0, -3) // in the default partition, within what is kept
	w.room.exec(t, "UPDATE oarlock.tasks SET log_day = $1 WHERE run_id = $2", old.day, late.Run)
	w.append(t, old.chunk(0, "stays, too"))
	w.room.exec(t, "UPDATE oarlock.dag_versions SET retention_runs = 0, retention_days = 1")
	w.room.exec(t, "SET session_replication_role = replica")
	w.room.exec(t, `UPDATE oarlock.runs SET finished_at = now() - interval '2 days' WHERE run_id = $1`, run)
	w.room.exec(t, "RESET session_replication_role")
	w.room.exec(t, "SELECT oarlock.prune()")
	if _, err := w.store.ReadLogs(t.Context(), LogQuery{Run: run}); !errors.Is(err, ErrNotFound) {
		t.Errorf("the log of a pruned run: %v, want ErrNotFound", err)
	}
	wantStored(t, w.room, run)
	wantLines(t, readLogs(t, w.store, LogQuery{Run: claim.Run}), "a 1 0 stays")
	wantLines(t, readLogs(t, w.store, LogQuery{Run: late.Run}), "a 1 0 stays, too")
}
