package queue

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
)

func TestWatch_YieldsEveryChangeItSees(t *testing.T) {
	t.Parallel()
	w := newLogBundle(t).writer(t)
	run := w.room.enqueue(t)
	changes := []func(){
		func() { w.hold(t, run) },
		func() { w.room.exec(t, "UPDATE oarlock.runs SET state = 'paused' WHERE run_id = $1", run) },
		func() { w.room.end(t, run, "failed") },
	}
	var states []string
	for r, err := range w.store.Watch(t.Context(), run) {
		if err != nil {
			t.Fatal(err)
		}
		if states = append(states, r.State); len(changes) > 0 {
			changes[0]()
			changes = changes[1:]
		}
	}
	if len(states) != 4 || states[0] != "queued" || states[1] != "running" || states[2] != "paused" || states[3] != "failed" {
		t.Errorf("saw %v", states)
	}
	if n := len(collect(t, w.store.Watch(t.Context(), run))); n != 1 {
		t.Errorf("a run that is over was yielded %d times", n)
	}
	for range w.store.Watch(t.Context(), run) {
		break
	}
}

// Listen calls news at once, some times when it begins to hear, and then whenever there is news.
func TestListen_CallsForNews(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	calls, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		ended <- w.store.Listen(ctx, claim.Run, true, func() {
			select {
			case calls <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	<-calls
	await.True(t, "it registered", func() bool {
		select { // until it hears, it looks at intervals
		case <-calls:
		default:
		}
		return found[bool](t, w.room, "SELECT EXISTS (SELECT FROM oarlock.followers WHERE logs)")
	})
	for range freshly {
		<-calls
	}
	w.append(t, log.chunk(0, "x"))
	<-calls
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

func TestAwait_HearsOfTheEnd(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	result := make(chan *Result, 1)
	go func() {
		r, err := w.store.Await(t.Context(), claim.Run)
		if err != nil {
			t.Error(err)
		}
		result <- r
	}()
	await.True(t, "it registered", func() bool {
		return found[bool](t, w.room, "SELECT EXISTS (SELECT FROM oarlock.followers WHERE NOT logs)")
	})
	w.append(t, log.chunk(0, "x"))
	if w.Followed(claim.Run) {
		t.Error("who waits for the end has the log flushed")
	}
	w.room.end(t, claim.Run, "succeeded")
	if r := <-result; r == nil || r.State != "succeeded" || r.FinishedAt.IsZero() {
		t.Errorf("got %+v", r)
	}
	await.True(t, "it left", func() bool { return found[int](t, w.room, "SELECT count(*) FROM oarlock.followers") == 0 })
}

// Lost notifications cause a delay of at most the poll interval, and so does polling only.
func TestAwait_LooksWithoutHearing(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{"unheard": {}, "polling": {PollOnly: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			room := newLogBundle(t)
			config.URL = room.db.URL
			s, run := openStore(t, config), room.enqueue(t)
			next, stop := iter.Pull2(s.Watch(t.Context(), run))
			defer stop()
			if r, err, _ := next(); err != nil || r.State != "queued" {
				t.Fatal(r, err)
			}
			room.exec(t, "UPDATE oarlock.runs SET state = 'canceled', finished_at = now(), queue_deadline = NULL WHERE run_id = $1", run)
			if r, err, _ := next(); err != nil || r.State != "canceled" {
				t.Fatal(r, err)
			}
			if r, err := s.Await(t.Context(), run); err != nil || r.State != "canceled" {
				t.Fatal(r, err)
			}
		})
	}
}

func TestAwait_EndsWithItsContextAndWithTheStore(t *testing.T) {
	t.Parallel()
	room := newLogBundle(t)
	s, run := openStore(t, Config{URL: room.db.URL}), room.enqueue(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Await(ctx, run); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := s.Await(t.Context(), run)
		result <- err
	}()
	await.True(t, "it registered", func() bool { return found[int](t, room, "SELECT count(*) FROM oarlock.followers") == 1 })
	s.Close()
	if err := <-result; err == nil {
		t.Error("it waited for a run on a store that is closed")
	}
}

func TestFollow_RefusesWhatItMust(t *testing.T) {
	t.Parallel()
	room := newLogBundle(t)
	run := room.enqueue(t)
	room.exec(t, "INSERT INTO oarlock.followers SELECT $1, 'full' || n, now() + (n - 1) * interval '1 h' FROM generate_series(1, 101) n", run)
	room.exec(t, "SELECT oarlock.follow($1, 'full7', 10)", run) // renewed
	if _, err := room.conn.Exec(t.Context(), "SELECT oarlock.follow($1, 'one more')", run); wrapError("follow", err) == nil || !isCode(err, "OA012") {
		t.Errorf("the 101st follower: %v", err)
	}
	room.exec(t, "DELETE FROM oarlock.followers WHERE channel = 'full9'")
	room.exec(t, "SELECT oarlock.follow($1, 'one more')", run)
	for _, arguments := range []string{"$1, ''", "$1, NULL", "$1, repeat('x', 64)", "$1, 'c', 0", "$1, 'c', 3601", "$1, 'c', NULL"} {
		if _, err := room.conn.Exec(t.Context(), "SELECT oarlock.follow("+arguments+")", run); !isCode(err, "OA013") {
			t.Errorf("follow(%s): %v", arguments, err)
		}
	}
	room.end(t, run, "canceled")
	if until := found[*time.Time](t, room, "SELECT oarlock.follow($1, 'late')", run); until != nil {
		t.Errorf("a run that is over is followed until %s", until)
	}
}
