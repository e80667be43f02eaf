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
	lastLogs  = 5 * time.Second // the last lines of a run that is over are waited for
	maxAbove  = 10_000          // lines that wait to be printed; further ones are lost, and can be looked up
	maxLatest = 300             // bytes of a line beside a task
)

// liveLines are what tasks write, and what else is to be told, while somebody draws on the terminal: lines that go above
// what is drawn, and the last one of each task. Its methods do little on nil.
type liveLines struct {
	came   chan struct{}
	finish func() // waits for the last of them

	mu     sync.Mutex
	upper  []string
	latest map[string]string
}

func newLiveLines() *liveLines {
	return &liveLines{came: make(chan struct{}, 1), latest: map[string]string{}}
}

// news is received from when there is something to draw.
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

// take is what came for above since it was called last.
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

// of is the last line of a task.
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

// add takes the last whole or begun line of a chunk.
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

// Write has lines printed above what is drawn.
func (l *liveLines) Write(p []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimSuffix(string(p), "\n"), "\n") {
		l.above(line)
	}
	return len(p), nil
}

// awaitLive is awaitRun with what the tasks write: on a terminal the last line of each beside it, and all of it if it is asked
// for, between what else is shown.
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

// followLines hands on what tasks write until the run is over. Where that fails, the logs are there to be looked up.
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

// sharedOutput is written to by several at once, a piece at a time.
type sharedOutput struct {
	mu sync.Mutex
	to interface{ Write(p []byte) (int, error) }
}

func (s *sharedOutput) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}
