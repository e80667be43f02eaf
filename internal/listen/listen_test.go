package listen_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/internal/listen"
)

func TestSubscribe_HearsItsChannelOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.listen(t, listen.Options{})
	one, two, again := subscribed(t, l, "one"), subscribed(t, l, "Two words, \"quoted\"; --"), subscribed(t, l, "one")
	b.notify(t, "three", "nobody's")
	b.notify(t, "Two words, \"quoted\"; --", "for two")
	b.heard(t, one, "one", "x")
	for s, want := range map[*listen.Subscription]string{two: "for two", again: "x"} {
		if signal := wait(t, s); !slices.Equal(signal.Payloads, []string{want}) {
			t.Errorf("heard %q, want %q", signal.Payloads, want)
		}
	}
	if n := len(b.backends(t)); n != 1 {
		t.Errorf("%d connections for three subscriptions, want 1", n)
	}
}

func TestSubscribe_InterruptsTheWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.listen(t, listen.Options{CheckEvery: time.Hour})
	b.heard(t, subscribed(t, l, "first"), "first", "a")
	before := b.backends(t)
	for _, channel := range []string{"b", "c", "d"} {
		b.heard(t, subscribed(t, l, channel), channel, "x")
	}
	if after := b.backends(t); !slices.Equal(before, after) {
		t.Errorf("the connection changed from %v to %v", before, after)
	}
}

func TestSubscription_CloseStopsListening(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.listen(t, listen.Options{CheckEvery: time.Hour})
	gone, stays, twin := subscribed(t, l, "gone"), subscribed(t, l, "stays"), subscribed(t, l, "stays")
	gone.Close()
	gone.Close()
	twin.Close()
	if _, err := gone.Wait(t.Context()); !errors.Is(err, listen.ErrClosed) {
		t.Errorf("waiting for a closed subscription: %v", err)
	}
	b.heard(t, stays, "stays", "y")
	await.True(t, "UNLISTEN", func() bool {
		var last string
		if err := b.conn.QueryRow(t.Context(), "SELECT query FROM pg_stat_activity WHERE pid = ANY ($1)", b.backends(t)).Scan(&last); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(last, `UNLISTEN "gone"`)
	})
}

func TestWait_GathersEachPayloadOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.listen(t, listen.Options{})
	s, mark := subscribed(t, l, "a"), subscribed(t, l, "mark")
	for range 500 {
		b.notify(t, "a", "y", "x")
	}
	b.notify(t, "mark", "sent")
	wait(t, mark)
	if signal := wait(t, s); signal.Missed || !slices.Equal(signal.Payloads, []string{"x", "y"}) {
		t.Errorf("signal %v", signal)
	}
}

func TestWait_SaysMissedPastTheBound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.listen(t, listen.Options{})
	s, mark := subscribed(t, l, "a"), subscribed(t, l, "mark")
	if _, err := b.conn.Exec(t.Context(), "SELECT pg_notify('a', lpad(n::text, 7000, 'x')) FROM generate_series(1, 2000) n"); err != nil {
		t.Fatal(err)
	}
	b.notify(t, "mark", "sent")
	wait(t, mark)
	if signal := wait(t, s); !signal.Missed || len(signal.Payloads) > 0 {
		t.Errorf("after a flood: missed %t, %d payloads", signal.Missed, len(signal.Payloads))
	}
	b.heard(t, s, "a", "after", "")
}

func TestListener_ComesBackAfterItsBackendEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.listen(t, listen.Options{})
	one, two := subscribed(t, l, "one"), subscribed(t, l, "two")
	for range 3 {
		b.terminate(t)
		waitMissed(t, one)
		waitMissed(t, two)
		b.heard(t, one, "one", "x")
		b.heard(t, two, "two", "y")
	}
}

func TestListener_ComesBackAfterItGaveWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.listen(t, listen.Options{CheckEvery: time.Hour})
	s := subscribed(t, l, "a")
	before := b.backends(t)
	l.GiveWay(time.Millisecond)
	waitMissed(t, s)
	b.heard(t, s, "a", "x")
	if after := b.backends(t); slices.Equal(before, after) {
		t.Errorf("the connection is still %v", after)
	}
}

func TestListener_ComesBackAfterACut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.listen(t, listen.Options{})
	s := subscribed(t, l, "a")
	b.proxy.Refuse(true)
	b.proxy.CutAll()
	waitMissed(t, s)
	accepted := b.proxy.Counts().Accepted
	await.True(t, "more tries", func() bool { return b.proxy.Counts().Accepted > accepted+2 })
	b.proxy.Refuse(false)
	waitMissed(t, s)
	b.heard(t, s, "a", "x")
}

func TestListener_NoticesASilentDeath(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.listen(t, listen.Options{CheckEvery: 20 * time.Millisecond, CheckTimeout: 200 * time.Millisecond})
	s := subscribed(t, l, "a")
	b.heard(t, s, "a", "x")
	b.proxy.Freeze()
	waitMissed(t, s) // the Listener noticed the loss itself
	b.proxy.Thaw()
	b.heard(t, s, "a", "y")
}

func TestListener_IsHalfHeard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	muted := b.proxy.Inject(netfault.Fault{When: netfault.OfType(netfault.Server, 'A'), Do: netfault.Mute})
	l := b.listen(t, listen.Options{CheckEvery: 20 * time.Millisecond, CheckTimeout: 200 * time.Millisecond})
	s := subscribed(t, l, "a")
	await.True(t, "a notification on a connection that is not renewed before it comes", func() bool {
		b.notify(t, "a", "lost")
		select {
		case <-muted.Fired():
			return true
		default:
			return false
		}
	})
	waitMissed(t, s) // the check got no answer
	b.heard(t, s, "a", "x")
}

func TestListener_SurvivesIdleTimeouts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.conn.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = ''30ms''', current_database()); END $$`); err != nil {
		t.Fatal(err)
	}
	s := subscribed(t, b.listen(t, listen.Options{}), "a")
	await.True(t, "a listener idle for ten times as long as others may be", func() bool {
		var idle bool
		err := b.conn.QueryRow(t.Context(), "SELECT coalesce(bool_or(state = 'idle' AND clock_timestamp() - state_change > '300ms'), false) FROM pg_stat_activity WHERE pid = ANY ($1)", b.backends(t)).Scan(&idle)
		return err == nil && idle
	})
	b.heard(t, s, "a", "x")
}

func TestClose_EndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*testing.T, *bundle, *listen.Listener){
		"at once": func(*testing.T, *bundle, *listen.Listener) {},
		"while it connects": func(t *testing.T, b *bundle, _ *listen.Listener) {
			t.Helper()
			await.True(t, "a try", func() bool { return b.proxy.Counts().Accepted > 0 })
		},
		"while it waits": func(t *testing.T, b *bundle, l *listen.Listener) {
			t.Helper()
			b.proxy.Thaw()
			subscribed(t, l, "x")
		},
		"while it pauses": func(t *testing.T, b *bundle, _ *listen.Listener) {
			t.Helper()
			b.proxy.Refuse(true)
			b.proxy.Thaw()
			b.proxy.CutAll()
			await.True(t, "several tries", func() bool { return b.proxy.Counts().Accepted > 3 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.proxy.Freeze()
			l := b.listen(t, listen.Options{})
			s := l.Subscribe("a")
			before(t, b, l)
			started := time.Now()
			l.Close()
			l.Close()
			if took := time.Since(started); took > listen.DefaultCheckTimeout {
				t.Errorf("Close took %s", took)
			}
			for _, s := range []*listen.Subscription{s, l.Subscribe("late")} {
				err := error(nil)
				for err == nil {
					_, err = s.Wait(t.Context())
				}
				if !errors.Is(err, listen.ErrClosed) {
					t.Errorf("waiting after Close: %v", err)
				}
				s.Close()
			}
			await.True(t, "no connection is left", func() bool { return len(b.backends(t)) == 0 })
		})
	}
}

func TestWait_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := subscribed(t, b.listen(t, listen.Options{}), "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	b.heard(t, s, "a", "x")
}
