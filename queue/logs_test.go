package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

var stepA, stepB = dagrun.TaskID{Step: 0}, dagrun.TaskID{Step: 1}

// logging returns a writer that holds a run with an attempt of step a.
func logging(tb testing.TB) (*writer, *Claim, attemptLog) {
	tb.Helper()
	w := newLogBundle(tb).writer(tb)
	claim := w.hold(tb, w.room.enqueue(tb))
	return w, claim, w.begin(tb, claim.Run, stepA, 1)
}

func (w *writer) append(tb testing.TB, chunks ...Chunk) {
	tb.Helper()
	if err := w.AppendLogs(tb.Context(), chunks); err != nil {
		tb.Fatal(err)
	}
}

func wantStored(t *testing.T, r *logBundle, run RunID, want ...string) {
	t.Helper()
	if got := r.stored(t, run); !slices.Equal(got, want) {
		t.Errorf("stored\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAppendLogs_StoresWhatBelongsToItsRuns(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	other := w.begin(t, w.hold(t, w.room.enqueue(t)).Run, dagrun.TaskID{Step: 2, Item: "k"}, 3)
	empty := other.last(1, "succeeded")
	empty.Data, empty.Dropped = nil, 7
	w.append(t)
	w.append(t, log.chunk(0, "x"), other.chunk(0, "y"), log.chunk(1, "z"), empty)
	wantStored(t, w.room, claim.Run, "0 1 0 x", "0 1 1 z")
	wantStored(t, w.room, other.run, "2 k 3 0 y", "2 k 3 1  succeeded")
	if dropped := found[int64](t, w.room, "SELECT sum(dropped_bytes)::bigint FROM oarlock.log_chunks"); dropped != 7 {
		t.Errorf("%d bytes dropped, want 7", dropped)
	}
}

// The data of all chunks of a statement travels in one piece.
func TestAppendLogs_KeepsTheBytesOfEachChunk(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	var chunks []Chunk
	var want []string
	for i, size := range []int{0, 1, MaxChunkBytes, 0, 3, 32 << 10, 2} {
		text := bytes.Repeat([]byte{0, 0xff, '\n', byte(i)}, size/4+1)[:size]
		chunks, want = append(chunks, log.chunk(i, string(text))), append(want, fmt.Sprintf("%x", text))
	}
	for _, n := range []int{1, 6} { // nothing at all, then the rest
		w.append(t, chunks[:n]...)
		chunks = chunks[n:]
	}
	const stored = "SELECT array_agg(encode(data, 'hex') ORDER BY seq) FROM oarlock.log_chunks WHERE run_id = $1"
	if got := found[[]string](t, w.room, stored, claim.Run); !slices.Equal(got, want) {
		t.Errorf("%d chunks are stored with other bytes than were sent", len(got))
	}
}

func TestAppendLogs_NeedsNoPartitionOfTheDay(t *testing.T) {
	t.Parallel()
	w, claim, today := logging(t)
	before := today
	before.attempt, before.day = 2, today.day.AddDate(0, 0, -40)
	w.append(t, today.chunk(0, "x"), before.chunk(0, "y"))
	w.append(t, today.chunk(0, "x"), before.chunk(0, "y"), before.chunk(1, "z"))
	wantStored(t, w.room, claim.Run, "0 1 0 x", "0 2 0 y", "0 2 1 z")
	if n := found[int](t, w.room, "SELECT count(*) FROM oarlock.log_chunks_default"); n != 2 {
		t.Errorf("%d chunks in the default partition, want 2", n)
	}
}

func TestAppendLogs_IsRefusedWithoutItsFence(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	w.append(t, log.chunk(0, "x"))
	w.room.exec(t, "DELETE FROM oarlock.fences WHERE channel = 'logs'")
	if err := w.AppendLogs(t.Context(), []Chunk{log.chunk(1, "y")}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v, want ErrLeaseLost", err)
	}
	wantStored(t, w.room, claim.Run, "0 1 0 x")
	select {
	case <-claim.Lost():
	default:
		t.Error("the session is lost, the claim does not say so")
	}
}

// A takeover waits for the append that is under way. Every later append has no effect.
func TestAppendLogs_HoldsItsFenceWhileItWrites(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	other := w.room.db.Conn(t)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "DELETE FROM oarlock.fences WHERE worker_id = $1", w.worker.ID); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- w.AppendLogs(t.Context(), []Chunk{log.chunk(0, "x")}) }()
	w.untilBlocked(t)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v, want ErrLeaseLost", err)
	}
	wantStored(t, w.room, claim.Run)
}

func (w *writer) untilBlocked(t *testing.T) {
	t.Helper()
	await.True(t, "the append waits for a lock", func() bool {
		return found[bool](t, w.room, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock')", appName(w.worker.ID))
	})
}

func TestAppendLogs_LeavesOutRunsThatAreNotHeld(t *testing.T) {
	t.Parallel()
	w, mine, log := logging(t)
	gone, foreign := w.hold(t, w.room.enqueue(t)), w.room.enqueue(t)
	w.room.exec(t, "UPDATE oarlock.runs SET claim_id = gen_random_uuid() WHERE run_id = $1", gone.Run)
	var chunks []Chunk
	for _, run := range []RunID{foreign, gone.Run, mine.Run} {
		log.run = run
		chunks = append(chunks, log.chunk(0, "x"), log.chunk(1, "y"))
	}
	err := w.AppendLogs(t.Context(), chunks)
	var left *AppendError
	if !errors.As(err, &left) || !errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrConflict) || !slices.Equal(left.Lost, []RunID{foreign, gone.Run}) {
		t.Errorf("got %v", err)
	}
	wantStored(t, w.room, mine.Run, "0 1 0 x", "0 1 1 y")
	wantStored(t, w.room, gone.Run)
	wantStored(t, w.room, foreign)
	select {
	case <-gone.Lost():
	case <-mine.Lost():
		t.Error("a claim that holds was forfeited")
	default:
		t.Error("a claim that is gone was not forfeited")
	}
}

// A stale writer cannot write past the final marker that another writer has put in its place.
func TestAppendLogs_StopsWhereTheLogGoesOnOtherwise(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	other := w.begin(t, claim.Run, stepB, 1)
	w.append(t, log.chunk(0, "x"), log.last(1, "lost"))
	err := w.AppendLogs(t.Context(), []Chunk{log.chunk(0, "x"), log.chunk(1, "y"), other.chunk(0, "b"), log.chunk(2, "z")})
	var left *AppendError
	if !errors.As(err, &left) || !errors.Is(err, ErrConflict) || errors.Is(err, ErrLeaseLost) || !slices.Equal(left.Conflicts, []RunID{claim.Run}) {
		t.Errorf("got %v, want a conflict", err)
	}
	wantStored(t, w.room, claim.Run, "0 1 0 x", "0 1 1  lost", "1 1 0 b")
}

func TestAppendLogs_TellsOtherContentApart(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	w.append(t, log.chunk(0, "x"))
	for name, change := range map[string]func(*Chunk){
		"data": func(c *Chunk) { c.Data = []byte("X") }, "stream": func(c *Chunk) { c.Stream = StreamStderr }, "final": func(c *Chunk) { c.Final = true },
		"reason": func(c *Chunk) { c.Reason = "r" }, "dropped": func(c *Chunk) { c.Dropped = 1 }, "lines": func(c *Chunk) { c.Lines = 1 },
	} {
		c := log.chunk(0, "x")
		change(&c)
		if err := w.AppendLogs(t.Context(), []Chunk{c}); !errors.Is(err, ErrConflict) {
			t.Errorf("other %s: %v, want ErrConflict", name, err)
		}
	}
	again := log.chunk(0, "x")
	again.At = again.At.Add(time.Hour)
	w.append(t, again)
	wantStored(t, w.room, claim.Run, "0 1 0 x")
}

func TestAppendLogs_SurvivesALostReply(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]netfault.Action{"cut": netfault.Cut, "cut in half": netfault.CutHalf, "cut after": netfault.CutAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, claim, log := logging(t)
			w.append(t, log.chunk(0, "a"))
			fault := w.proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: do})
			w.append(t, log.chunk(1, "b"), log.chunk(2, "c"))
			fault.MustFire(t)
			w.append(t, log.chunk(1, "b"), log.chunk(2, "c"), log.chunk(3, "d"))
			wantStored(t, w.room, claim.Run, "0 1 0 a", "0 1 1 b", "0 1 2 c", "0 1 3 d")
		})
	}
}

// A statement that hangs in the server when the caller gives up must not take effect after the caller's next one.
func TestAppendLogs_LeavesNothingUnderWay(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	w.append(t, log.chunk(0, "a"))
	tx, err := w.room.db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT FROM oarlock.fences WHERE worker_id = $1 FOR UPDATE", w.worker.ID); err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- w.AppendLogs(ctx, []Chunk{log.chunk(1, "b")}) }()
	w.untilBlocked(t)
	former := w.chunks.server
	giveUp()
	if err := <-result; err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want an error that says nothing was stored", err)
	}
	if found[bool](t, w.room, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2)", former.pid, former.started) {
		t.Error("the connection that the caller gave up on is still at work")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.append(t, log.last(1, "canceled"))
	wantStored(t, w.room, claim.Run, "0 1 0 a", "0 1 1  canceled")
}

func TestAppendLogs_SaysThatNobodyKnows(t *testing.T) {
	t.Parallel()
	w, _, log := logging(t)
	w.append(t, log.chunk(0, "a"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	fault := w.proxy.Inject(netfault.Fault{When: netfault.OfType(netfault.Client, 'B'), Do: netfault.Mute})
	w.proxy.Refuse(true)
	err := w.AppendLogs(ctx, []Chunk{log.chunk(1, "b")})
	fault.MustFire(t)
	if !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
}

func TestAppendLogs_KeepsWhyTheServerRefused(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	w.room.exec(t, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'disk full' USING ERRCODE = '53100'; END $$;
		CREATE TRIGGER full_disk BEFORE INSERT ON oarlock.log_chunks FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	if err := w.AppendLogs(t.Context(), []Chunk{log.chunk(0, "x")}); pglink.Classify(err) != pglink.Degraded {
		t.Errorf("%v is %s, want degraded", err, pglink.Classify(err))
	}
	w.room.exec(t, "DROP TRIGGER full_disk ON oarlock.log_chunks")
	w.append(t, log.chunk(0, "x"))
	wantStored(t, w.room, claim.Run, "0 1 0 x")
}

func TestAppendLogs_IsBounded(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	var chunks []Chunk
	for i := range 2*MaxAppendChunks + 3 {
		chunks = append(chunks, log.chunk(i, "x"))
	}
	wide := w.begin(t, claim.Run, stepB, 1)
	for i := range 40 {
		chunks = append(chunks, wide.chunk(i, strings.Repeat("w", MaxChunkBytes)))
	}
	statements := w.proxy.Counts().FromClient
	w.append(t, chunks...)
	if n := found[int](t, w.room, "SELECT count(*) FROM oarlock.log_chunks"); n != len(chunks) {
		t.Errorf("%d of %d chunks stored", n, len(chunks))
	}
	if sent := w.proxy.Counts().FromClient - statements; sent < 5 {
		t.Errorf("only %d messages: not split", sent)
	}
	for what, change := range map[string]func(*Chunk){
		"too much data": func(c *Chunk) { c.Data = make([]byte, MaxChunkBytes+1) }, "no day": func(c *Chunk) { c.Day = time.Time{} },
		"no attempt": func(c *Chunk) { c.Attempt = 0 }, "NUL": func(c *Chunk) { c.Reason = "a\x00b" }, "not UTF-8": func(c *Chunk) { c.Task.Item = "\xff" },
		"negative": func(c *Chunk) { c.Seq = -1 },
	} {
		c := log.chunk(1000, "x")
		change(&c)
		if err := w.AppendLogs(t.Context(), []Chunk{log.chunk(999, "fine"), c}); err == nil || pglink.Classify(err) != pglink.Permanent {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if n := found[int](t, w.room, "SELECT count(*) FROM oarlock.log_chunks"); n != len(chunks) {
		t.Error("something of a refused call was stored")
	}
}

func TestAppendLogs_AnnouncesOnlyToFollowers(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	logListener := w.room.db.Conn(t)
	for _, statement := range []string{"LISTEN expired", "LISTEN mine", "LISTEN other"} {
		if _, err := logListener.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	other := w.room.enqueue(t)
	w.room.exec(t, "INSERT INTO oarlock.followers VALUES ($1, 'expired', now() - interval '1 s'), ($2, 'other', now() + interval '1 h')", claim.Run, other)
	w.append(t, log.chunk(0, "x"))
	if w.Followed(claim.Run) {
		t.Error("a follower that expired counts")
	}
	w.room.exec(t, "INSERT INTO oarlock.followers VALUES ($1, 'mine', now() + interval '1 h')", claim.Run)
	w.append(t, log.chunk(1, "y"), log.chunk(2, "z"))
	if !w.Followed(claim.Run) || w.Followed(other) {
		t.Error("who is followed did not come back")
	}
	n, err := logListener.WaitForNotification(t.Context())
	if err != nil || n.Channel != "mine" || n.Payload != fmt.Sprintf("run:%d", claim.Run) {
		t.Errorf("first notification %+v %v", n, err)
	}
	w.room.exec(t, "DELETE FROM oarlock.followers WHERE channel = 'mine'")
	w.append(t, log.chunk(3, "last"))
	w.room.exec(t, "SELECT pg_notify('mine', 'mark')")
	if n, err := logListener.WaitForNotification(t.Context()); err != nil || n.Payload != "mark" {
		t.Errorf("after the follower left: %+v %v", n, err)
	}
	if w.Followed(claim.Run) {
		t.Error("the follower that left still counts")
	}
}

// A worker learns of a follower before it appends anything.
func TestFollow_IsKnownBeforeTheFirstAppend(t *testing.T) {
	t.Parallel()
	w, claim, _ := logging(t)
	ctx, cancel := context.WithCancel(t.Context())
	listener := make(chan struct{})
	go func() {
		defer close(listener)
		for ctx.Err() == nil {
			_, _ = w.Hear(ctx)
		}
	}()
	await.True(t, "the notification came", func() bool { // it may be sent before the worker listens
		w.room.exec(t, "SELECT oarlock.follow($1, 'mine')", claim.Run)
		return w.Followed(claim.Run)
	})
	cancel()
	<-listener
}

func TestHear_GathersWhatConcernsAWorker(t *testing.T) {
	t.Parallel()
	w := newLogBundle(t).writer(t)
	hear := func() Heard {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		heard, err := w.Hear(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return heard
	}
	if heard := hear(); !heard.All {
		t.Errorf("heard %+v first, want All", heard)
	}
	channel := found[string](t, w.room, "SELECT channel FROM oarlock.workers")
	w.room.exec(t, `SELECT pg_notify($1, m) FROM unnest(ARRAY['', 'run', 'run:', 'run:-1', 'run:0', 'run:1e3', 'run:99999999999999999999', 'lane:x', 'lane:4', 'lane:4:1', 'lane:4:1:x:y', 'drain:now', 'DRAIN', 'lane:0', repeat('y', 7999)]) m`, channel)
	w.room.exec(t, "SELECT pg_notify($1, m) FROM unnest(ARRAY['run:7', 'run:007', 'run:3', 'drain', 'lane:4:1:1764000000000', 'run:7']) m", channel)
	var all Heard // Hear may return only the first part of the messages of one transaction
	for !all.Lanes || !all.Drain || !slices.Equal(all.Runs, []RunID{3, 7}) {
		heard := hear()
		if all.Lanes, all.Drain = all.Lanes || heard.Lanes, all.Drain || heard.Drain; heard.All {
			t.Error("heard that something was missed")
		}
		all.Runs = append(all.Runs, heard.Runs...)
		slices.Sort(all.Runs)
		all.Runs = slices.Compact(all.Runs)
	}
	w.proxy.CutAll()
	for !hear().All {
	}
	w.listener.close()
	for {
		if _, err := w.Hear(t.Context()); err != nil {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("after close: %v", err)
			}
			break
		}
	}
}

func TestHear_PollOnlyWaits(t *testing.T) {
	t.Parallel()
	room := newLogBundle(t)
	store := openStore(t, Config{URL: room.db.URL, PollOnly: true})
	s := &Session{store: store, listener: newSessionListener(store, "x")}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Hear(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	s.listener.close()
	s.listener.close()
	if _, err := s.Hear(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}
