package cli

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	lastLogs  = 5 * time.Second // how long the last lines of a finished run are awaited
	maxAbove  = 10_000          // lines that wait to be printed; further lines are dropped here, and stay in the logs
	maxLatest = 300             // bytes of the line beside a task
)

// liveLines collects lines while a page is drawn on the terminal: lines to be printed above the page, and the last line of
// each task. Its methods do little on nil.
type liveLines struct {
	came   chan struct{}
	finish func() // waits for the last lines

	mu     sync.Mutex
	upper  []string
	latest map[string]string
}

func newLiveLines() *liveLines {
	return &liveLines{came: make(chan struct{}, 1), latest: map[string]string{}}
}

// news returns a channel that receives when there is something to draw.
func (l *liveLines) news() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.came
}

func (l *liveLines) tell() {
	select {
	case l.came <- struct{}{}:
	default:
	}
}

func (l *liveLines) above(line string) {
	l.mu.Lock()
	if len(l.upper) < maxAbove {
		l.upper = append(l.upper, line)
	}
	l.mu.Unlock()
	l.tell()
}

// take returns the lines for above the page that came since the last call.
func (l *liveLines) take() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.upper
	l.upper = nil
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// of returns the last line of a task.
func (l *liveLines) of(task string) string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest[task]
}

func (l *liveLines) settle() {
	if l != nil && l.finish != nil {
		l.finish()
	}
}

// add keeps the last line of a chunk as the last line of its task, finished or not.
func (l *liveLines) add(c *queue.Chunk) {
	if c.Stream == queue.StreamOarlock {
		return
	}
	text := bytes.TrimRight(c.Data, "\r\n\t ")
	text = text[bytes.LastIndexByte(text, '\n')+1:]
	text = text[bytes.LastIndexByte(text, '\r')+1:]
	if len(text) == 0 {
		return
	}
	line := runview.Printable(string(text[:min(len(text), maxLatest)]))
	l.mu.Lock()
	l.latest[runview.TaskName(c.Step, c.Task.Item)] = line
	l.mu.Unlock()
	l.tell()
}

// Write has lines printed above the page.
func (l *liveLines) Write(p []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimSuffix(string(p), "\n"), "\n") {
		l.above(line)
	}
	return len(p), nil
}

// awaitLive is awaitRun with the output of tasks. On a terminal it shows the last line of each task beside the task. With
// all, it prints every line between what else it shows.
func (e *env) awaitLive(ctx context.Context, store *queue.Store, id queue.RunID, all bool, how progress) error {
	shown := *e
	live := how == progressLive
	if !live && !all {
		return e.awaitRun(ctx, store, id, waiting{progress: how})
	}
	shown.Stdout = &sharedOutput{to: e.Stdout}
	logs := shown
	shown.lines = newLiveLines()
	switch {
	case live:
		e.lines, logs.Stdout = shown.lines, shown.lines
	case e.settings.Text("output") != "table":
		logs.Stdout, logs.StdoutTTY = e.Stderr, e.StderrTTY
	}
	following, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { logs.followLines(following, store, id, shown.lines, all) })
	shown.lines.finish = func() {
		defer time.AfterFunc(lastLogs, stop).Stop()
		beside.Wait()
	}
	defer beside.Wait()
	defer stop()
	return shown.awaitRun(ctx, store, id, waiting{progress: how})
}

// followLines passes on the output of tasks until the run is over. If it fails, the user can still look up the logs.
func (e *env) followLines(ctx context.Context, store *queue.Store, id queue.RunID, live *liveLines, all bool) {
	o := &logsOptions{query: queue.LogQuery{Run: id}, follow: true, tail: -1}
	reader := store.OpenLogs(o.query)
	sink := newLineSink(e, o, reader)
	for c, err := range reader.Follow(ctx, nil) {
		if err != nil {
			return
		}
		live.add(&c)
		if !all {
			continue
		}
		if err := sink.add(&c); err != nil {
			return
		}
	}
	_ = sink.end()
}

// sharedOutput lets several goroutines write to one output, one piece at a time.
type sharedOutput struct {
	mu sync.Mutex
	to interface{ Write(p []byte) (int, error) }
}

func (s *sharedOutput) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}
