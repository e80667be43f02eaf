package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/runview"
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

// busyView returns a view with more of everything than a screen shows.
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
		v.painter = newPainter(true)
		frame := e.topFrame(v)
		lines := strings.Split(frame, "\r\n")
		if len(lines) > rows {
			t.Errorf("%d lines on a screen of %d", len(lines), rows)
		}
		for _, line := range lines {
			if w := term.Width(strings.NewReplacer("\x1b[K", "", "\x1b[H", "", "\x1b[J", "").Replace(line)); w > 70 {
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
	for _, want := range []string{"\nq1  ", "… 10 more\n… 15 idle queues (all: oarlock queues --all)\n", "… 24 more\n", "… 13+ more"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestTop_FitsItsHeadInto80Columns(t *testing.T) {
	t.Parallel()
	e := &env{Env: testEnv()}
	e.Columns, e.Rows = 80, 24
	v := &topView{at: time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC), approvals: 3, failing: []jsonFailing{{"etl", 12}, {"load", 3}}}
	v.seen.Ended, v.seen.Failed = 0.2833, 0.1167
	v.seen.Queues = []queue.Queue{{Name: "a", Queued: 123456, Running: 1000}, {Name: "b", Queued: 1, Running: 24}}
	v.seen.Workers = []queue.WorkerInfo{
		{Worker: queue.Worker{Name: "w", Slots: 1024}, State: queue.WorkerLive, Busy: 1024, Waiting: 12345},
		{Worker: queue.Worker{Name: "gone", Slots: 16}, State: queue.WorkerLive, Busy: 7, Quiet: &queue.Quiet{}},
	}
	lines := strings.Split(e.topFrame(v), "\x1b[K\r\n")
	want := []string{"runs 1024 running, 123457 queued   0.28 ended/s  0.12 failed/s", "1 worker quiet   3 approvals wait   failing etl 12, load 3"}
	if !strings.HasSuffix(lines[0], " 1024/1024  12345 tasks wait for a slot") || !slices.Equal(lines[1:3], want) {
		t.Errorf("the head is cut: %q", lines[:3])
	}
	if got := lines[len(lines)-2]; got != topLegend {
		t.Errorf("the legend is cut: %q", got)
	}
}

func TestTop_CountsFailuresOfTheLastHour(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	runs := []queue.Run{
		{DAG: "load", FinishedAt: now.Add(-time.Minute)},
		{DAG: "etl", FinishedAt: now.Add(-time.Minute)},
		{DAG: "etl", FinishedAt: now.Add(-59 * time.Minute)},
		{DAG: "old", FinishedAt: now.Add(-61 * time.Minute)},
		{DAG: "mail", FinishedAt: now.Add(-time.Minute)},
		{DAG: "ping", FinishedAt: now.Add(-time.Minute)},
	}
	v := &topView{failing: failingDAGs(runs, now.Add(-failingWindow))}
	if got, want := v.wantedLine(), "failing etl 2, load 1, mail 1, 1 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTop_FoldsIdleQueues(t *testing.T) {
	t.Parallel()
	v := &topView{}
	for i := range 120 {
		v.seen.Queues = append(v.seen.Queues, queue.Queue{Name: fmt.Sprintf("q%d", i)})
	}
	v.seen.Queues[40].Queued, v.seen.Queues[60].Running, v.seen.Queues[80].PausedBy = 1, 1, "ana"
	text := strings.Join(v.lines(200), "\n")
	for _, want := range []string{"\nq40 ", "\nq60 ", "\nq80 ", "\n… 117 idle queues (all: oarlock queues --all)\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "q41") {
		t.Errorf("an idle queue is shown:\n%s", text)
	}
}

func TestTop_ShowsReasonsOnlyWhereThereAreSome(t *testing.T) {
	t.Parallel()
	v := &topView{runs: []queue.Run{{ID: 1, DAG: "a", Worker: "w1"}}}
	if head := v.runTable().String(); strings.Contains(head, "REASON") {
		t.Errorf("a column without content: %q", head)
	}
	v.runs = append(v.runs, queue.Run{ID: 2, DAG: "b", Worker: "w1", Reason: "waits"})
	if text := v.runTable().String(); !strings.Contains(text, "REASON") || !strings.Contains(text, "w1      waits") {
		t.Errorf("no reason: %q", text)
	}
}

func TestQueues_ListWhatIsBusyFirst(t *testing.T) {
	t.Parallel()
	var queues []queue.Queue
	for i := range runview.IdleQueuesMax + 2 {
		queues = append(queues, queue.Queue{Name: fmt.Sprintf("q%02d", i)})
	}
	queues[5].Queued = 3
	if got := newPainter(false).queuesText(queues, nil, false); !strings.Contains(got, "\nq05 ") || strings.Contains(got, "q00") || !strings.HasSuffix(got, "\n… 11 idle queues (all: oarlock queues --all)\n") {
		t.Errorf("got\n%s", got)
	}
	if got := newPainter(false).queuesText(queues, nil, true); strings.Count(got, "\n") != 1+len(queues) || strings.Index(got, "q05") > strings.Index(got, "q00") {
		t.Errorf("with --all got\n%s", got)
	}
	if got := newPainter(false).queuesText(queues[:5], nil, false); !strings.Contains(got, "\nq04 ") || strings.Contains(got, "…") {
		t.Errorf("few were folded:\n%s", got)
	}
}
