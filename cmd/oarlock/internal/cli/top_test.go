package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// frames collects what is written, and calls after each frame.
type frames struct {
	mu    sync.Mutex
	text  strings.Builder
	count int
	after func(n int)
}

func (f *frames) Write(b []byte) (int, error) {
	f.mu.Lock()
	f.text.Write(b)
	drawn := strings.Contains(string(b), "\x1b[H")
	if drawn {
		f.count++
	}
	n := f.count
	f.mu.Unlock()
	if drawn {
		f.after(n)
	}
	return len(b), nil
}

func TestTop_DrawsOverTheFrameBeforeUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	for name, c := range map[string]struct {
		cause error
		want  exit
	}{
		"interrupt": {&signalError{interrupt: true}, exitOK},
		"terminate": {&signalError{}, exitTerminate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			out := &frames{after: func(n int) {
				if n == 3 {
					cancel(c.cause)
				}
			}}
			e := testEnv()
			e.Stdout, e.Stderr, e.StdoutTTY = out, os.Stderr, true
			e.Lookup = func(name string) (string, bool) {
				return map[string]string{"DATABASE_URL": db.URL}[name], name == "DATABASE_URL"
			}
			got := run(ctx, e, []string{"top", "--interval", "200ms"})
			text := out.text.String()
			if got != int(c.want) || !strings.HasPrefix(text, "\x1b[?1049h\x1b[?25l\x1b[H") || !strings.HasSuffix(text, "\x1b[J\x1b[?25h\x1b[?1049l") {
				t.Errorf("exit %d, drew %q", got, text)
			}
			if strings.Contains(text, "\x1b[2J") || strings.Count(text, "\x1b[H") != 3 {
				t.Errorf("it flickers: %q", text)
			}
		})
	}
}

// busyView has more of everything than a screen takes.
func busyView() *topView {
	v := &topView{at: time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC), more: true}
	for i := range 30 {
		v.seen.Queues = append(v.seen.Queues, queue.Queue{Name: fmt.Sprintf("q%d", i), Queued: int64(i % 2)})
		v.seen.Workers = append(v.seen.Workers, queue.WorkerInfo{
			Worker: queue.Worker{Name: fmt.Sprintf("w%d\x1b[2J", i), Slots: 8}, State: queue.WorkerLive, Desired: queue.WorkerLive, Busy: i % 9, BeatAge: time.Second,
		})
		v.runs = append(v.runs, queue.Run{ID: queue.RunID(i), DAG: strings.Repeat("x", 90), StartedAt: v.at.Add(-time.Hour)})
	}
	return v
}

func TestTop_FitsTheScreen(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{5, 12, 24, 60} {
		e := &env{Env: testEnv()}
		e.Columns, e.Rows = 70, rows
		v := busyView()
		v.painter = true
		frame := e.topFrame(v)
		lines := strings.Split(frame, "\r\n")
		if len(lines) > rows {
			t.Errorf("%d lines on a screen of %d", len(lines), rows)
		}
		for _, line := range lines {
			if w := width(strings.NewReplacer("\x1b[K", "", "\x1b[H", "", "\x1b[J", "").Replace(line)); w > 70 {
				t.Errorf("a line of %d columns: %q", w, line)
			}
		}
		if strings.Contains(frame, "\x1b[2J") {
			t.Error("the name of a worker commands the terminal")
		}
	}
}

func TestTop_SaysWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	text := strings.Join(busyView().lines(40), "\n")
	for _, want := range []string{"\nq1  ", "… 23 more\n", "… 14+ more"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
