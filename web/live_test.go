package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// fakePage is a page that tests change.
type fakePage struct {
	mu    sync.Mutex
	reads int
	view  *liveView
	err   error
}

// change sets the page for the next read.
func (f *fakePage) change(view *liveView) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view, f.err = view, nil
}

// fail makes the next reads fail.
func (f *fakePage) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakePage) timesRead() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

func (f *fakePage) source(key string) liveSource {
	return liveSource{key: key, read: func(context.Context) (*liveView, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.reads++
		return f.view, f.err
	}}
}

// show makes a view of regions by name and text.
func show(pairs ...string) *liveView {
	v := &liveView{regions: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		v.regions[pairs[i]], v.order = pairs[i+1], append(v.order, pairs[i])
	}
	return v
}

// received returns the events that a viewer has got so far.
func received(v *viewer) (text string, closed bool) {
	var b strings.Builder
	for {
		select {
		case event, ok := <-v.events:
			if !ok {
				return b.String(), true
			}
			b.WriteString(event)
		default:
			return b.String(), false
		}
	}
}

func wantReceived(t *testing.T, v *viewer, want string, ended bool) {
	t.Helper()
	if got, closed := received(v); got != want || closed != ended {
		t.Errorf("received %q (ended: %v), want %q (%v)", got, closed, want, ended)
	}
}

// untilNextLook lets the time of the test pass.
func untilNextLook() {
	<-time.After(listInterval + liveInterval)
	synctest.Wait()
}

func TestHub_SharesAPageBetweenViewers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, page := newHub(), &fakePage{view: show("a", "1", "b", "x\ny")}
		first, leaveFirst := h.join(nil, page.source("k"))
		synctest.Wait()
		whole := event("region", "1") + "event: region\ndata: x\ndata: y\n\n"
		wantReceived(t, first, whole, false)
		second, leaveSecond := h.join(nil, page.source("k"))
		wantReceived(t, second, whole, false)

		page.change(show("a", "1", "b", "z"))
		untilNextLook()
		wantReceived(t, first, event("region", "z"), false)
		wantReceived(t, second, event("region", "z"), false)
		if n := page.timesRead(); n != 2 {
			t.Errorf("read %d times for two viewers", n)
		}

		leaveFirst()
		leaveSecond()
		leaveSecond()
		synctest.Wait()
		if len(h.topics) != 0 || h.viewers != 0 {
			t.Errorf("%d pages and %d viewers are left", len(h.topics), h.viewers)
		}
	})
}

func TestHub_TellsOfADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, page := newHub(), &fakePage{err: context.DeadlineExceeded}
		v, leave := h.join(nil, page.source("k"))
		defer leave()
		synctest.Wait()
		wantReceived(t, v, event("away", ""), false)
		page.change(show("a", "1"))
		untilNextLook()
		wantReceived(t, v, event("region", "1"), false)
	})
}

// A read goes on for as long as the store tries again, which says nothing of the work that it is for the database.
func TestHub_ReadsAgainSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]time.Duration{"a read survives": 4 * time.Second, "reads fail": 32 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				page := &fakePage{view: show("a", "0")}
				source, back := page.source("k"), time.Time{}
				read := source.read
				source.read = func(ctx context.Context) (*liveView, error) {
					select {
					case <-time.After(time.Until(back)):
						return read(ctx)
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				v, leave := newHub().join(nil, source)
				defer leave()
				untilNextLook()
				back = time.Now().Add(outage)
				page.change(show("a", "1"))
				<-time.After(outage + 2*time.Second)
				synctest.Wait()
				if got, _ := received(v); !strings.HasSuffix(got, event("region", "1")) {
					t.Errorf("2 s after the outage the page shows %q", got)
				}
				page.change(show("a", "2"))
				untilNextLook()
				wantReceived(t, v, event("region", "2"), false)
			})
		})
	}
}

// A viewer that was told that the database is away learns that it is back, even if nothing has changed.
func TestHub_TellsThatTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, page := newHub(), &fakePage{view: show("a", "1")}
		v, leave := h.join(nil, page.source("k"))
		defer leave()
		synctest.Wait()
		page.fail(context.DeadlineExceeded)
		untilNextLook()
		page.change(show("a", "1"))
		untilNextLook()
		wantReceived(t, v, event("region", "1")+event("away", "")+event("region", "1"), false)
	})
}

func TestHub_PausesAfterSlowReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page := &fakePage{view: show("a", "0")}
		source := page.source("k")
		read := source.read
		source.read = func(ctx context.Context) (*liveView, error) {
			wait(ctx, time.Second, nil)
			return read(ctx)
		}
		_, leave := newHub().join(nil, source)
		defer leave()
		<-time.After(2 * time.Minute)
		if n := page.timesRead(); n > 11 {
			t.Errorf("a page that takes a second to read was read %d times in two minutes", n)
		}
	})
}

func TestHub_EndsWithThePage(t *testing.T) {
	t.Parallel()
	over := show("a", "1")
	over.over = true
	for name, c := range map[string]struct {
		page *fakePage
		want string
	}{
		"over": {&fakePage{view: over}, event("region", "1") + event("over", "")},
		"gone": {&fakePage{err: fmt.Errorf("run: %w", queue.ErrNotFound)}, event("gone", problemOf(queue.ErrNotFound).message)},
		"odd":  {&fakePage{err: errors.New("odd")}, event("gone", problemOf(errors.New("odd")).message)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHub()
				v, leave := h.join(nil, c.page.source("k"))
				synctest.Wait()
				wantReceived(t, v, c.want, true)
				leave()
				if len(h.topics) != 0 || h.viewers != 0 {
					t.Errorf("%d pages and %d viewers are left", len(h.topics), h.viewers)
				}
			})
		})
	}
}

// A viewer that does not keep up starts anew, and other viewers do not wait for it.
func TestHub_DropsSlowViewers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, page := newHub(), &fakePage{view: show("a", "0")}
		slow, leaveSlow := h.join(nil, page.source("k"))
		defer leaveSlow()
		quick, leaveQuick := h.join(nil, page.source("k"))
		defer leaveQuick()
		for i := range streamBacklog + 2 {
			page.change(show("a", fmt.Sprint(i+1)))
			untilNextLook()
			if text, closed := received(quick); text == "" || closed {
				t.Fatalf("the quick one received %q, ended: %v", text, closed)
			}
		}
		if _, closed := received(slow); !closed {
			t.Error("the slow one was kept")
		}
		if h.viewers != 1 {
			t.Errorf("%d viewers", h.viewers)
		}
	})
}

func TestHub_BoundsStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, page := newHub(), &fakePage{view: show("a", "1")}
		for range maxStreams {
			v, leave := h.join(nil, page.source("k"))
			if v == nil {
				t.Fatal("refused too early")
			}
			defer leave()
		}
		if v, _ := h.join(nil, page.source("k")); v != nil {
			t.Error("took one too many")
		}
	})
}

func TestLiveLog_BringsLinesThatAreNewOrWentOn(t *testing.T) {
	t.Parallel()
	log := func(attempt int, first int64, texts ...string) *liveLog {
		l := &liveLog{attempt: attempt, first: first, last: first + int64(len(texts)) - 1, lines: map[int64]string{}, whole: "all", count: "n"}
		for i, text := range texts {
			l.lines[first+int64(i)] = text
		}
		return l
	}
	for name, c := range map[string]struct {
		last, now *liveLog
		want      string
	}{
		"nothing new":       {log(1, 1, "a", "b"), log(1, 1, "a", "b"), ""},
		"a line":            {log(1, 1, "a"), log(1, 1, "a", "b"), event("lines", `{"html":"b","count":"n"}`)},
		"one went on":       {log(1, 1, "a", "b"), log(1, 1, "a", "bb", "c"), event("lines", `{"html":"bbc","count":"n"}`)},
		"the first":         {log(1, 1), log(1, 1, "a"), event("lines", `{"html":"a","count":"n"}`)},
		"the window moved":  {log(1, 1, "a", "b"), log(1, 2, "b", "c"), event("lines", `{"html":"c","count":"n"}`)},
		"too many at once":  {log(1, 1, "a", "b"), log(1, 9, "i"), event("region", "all")},
		"another attempt":   {log(1, 1, "a"), log(2, 1, "x"), event("region", "all")},
		"nothing was there": {nil, log(1, 1, "a"), event("region", "all")},
	} {
		if got := c.now.since(c.last); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
