package logship

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// loop sends what is written to the logs of a shipper. It looks at each of them only when something is due, not whenever
// one of them is opened, written to or closed.
type loop struct {
	*Shipper
	lines    map[*line]bool
	closings map[*line]bool // those of them that are to end, once the loop has sent enough
	outcomes chan outcome
	busy     bool
	timer    *time.Timer
	alarm    time.Time // when the timer goes off

	pause   time.Duration // after a failure; 0: the last call went well
	retryAt time.Time
}

// outcome of one call of the sink.
type outcome struct {
	lines []*line
	err   error
}

func newLoop(s *Shipper) *loop {
	return &loop{
		Shipper: s, lines: map[*line]bool{}, closings: map[*line]bool{}, outcomes: make(chan outcome, 1),
		timer: time.NewTimer(time.Hour), alarm: time.Now().Add(time.Hour),
	}
}

func (l *loop) run() {
	defer close(l.stopped)
	defer l.timer.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	for {
		select {
		case r := <-l.requests:
			l.accept(r)
		case o := <-l.outcomes:
			l.settle(o)
		case <-l.kick:
		case <-l.soon:
			l.lookWithin(WatchedInterval / 2)
			continue
		case <-l.timer.C:
		case <-l.stop:
			cancel()
			l.end()
			return
		}
		l.advance(ctx)
	}
}

// lookWithin has the timer go off before long.
func (l *loop) lookWithin(d time.Duration) {
	if at := time.Now().Add(d); at.Before(l.alarm) {
		l.alarm = at
		l.timer.Reset(d)
	}
}

// learn takes over the logs that something was written to.
func (l *loop) learn() {
	l.adopting.Lock()
	defer l.adopting.Unlock()
	for i, n := range l.adopted {
		l.lines[n], l.adopted[i] = true, nil
	}
	l.adopted = l.adopted[:0]
}

// accept takes note of a log that is to end.
func (l *loop) accept(r request) {
	n := r.log.line
	l.learn()
	l.lines[n], l.closings[n] = true, true
	now := time.Now()
	n.closing = &closing{r, now.Add(l.patience()), now.Add(CloseLimit)}
}

// patience is how long a log that ends waits while nothing is stored.
func (l *loop) patience() time.Duration {
	if l.hurried.Load() {
		return HurriedPatience
	}
	return ClosePatience
}

// hurry takes patience from those that wait already.
func (l *loop) hurry(now time.Time) {
	for n := range l.closings {
		n.closing.deadline = earlier(n.closing.deadline, now.Add(HurriedPatience))
	}
}

// advance does all that can be done without waiting.
func (l *loop) advance(ctx context.Context) {
	now := time.Now()
	l.learn()
	if l.hurried.Load() {
		l.hurry(now)
	}
	for n := range l.closings {
		if n.ready() || now.After(n.closing.deadline) {
			l.close(n)
		}
	}
	if (l.crowded.Load() || l.pause > 0) && l.memory.Load() > l.config.MemoryBytes/2 {
		l.unload()
	}
	if !l.busy && !now.Before(l.retryAt) {
		l.send(ctx, now)
	}
	sleep := l.sleep(now)
	l.alarm = now.Add(sleep)
	l.timer.Reset(sleep)
}

// close hands over what is left of a log.
func (l *loop) close(n *line) {
	delete(l.lines, n)
	delete(l.closings, n)
	n.closing.reply <- n.finish(n.closing.reason)
	n.closing = nil
}

// sleep is how long there is nothing to do, if nothing happens.
func (l *loop) sleep(now time.Time) time.Duration {
	next := now.Add(time.Hour)
	for n := range l.closings {
		next = earlier(next, n.closing.deadline)
	}
	if l.busy {
		return max(next.Sub(now), time.Millisecond) // its end is heard of
	}
	for n := range l.lines {
		if at, ok := n.due(now, l.interval(n)); ok {
			next = earlier(next, later(at, l.retryAt))
		}
	}
	return max(next.Sub(now), time.Millisecond)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (l *loop) interval(n *line) time.Duration {
	if l.config.Followed(n.log.at.Run) {
		return WatchedInterval
	}
	return FlushInterval
}

// send starts a call of the sink with what is due, of logs that are to end first.
func (l *loop) send(ctx context.Context, now time.Time) {
	b := batch{room: budget{chunks: batchChunks, bytes: batchBytes}}
	for n := range l.closings {
		l.gather(&b, n, now)
	}
	for n := range l.lines {
		if !l.closings[n] {
			l.gather(&b, n, now)
		}
	}
	if len(b.chunks) == 0 {
		return
	}
	l.busy = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, appendTimeout)
		defer cancel()
		l.outcomes <- outcome{b.lines, l.config.Sink.AppendLogs(ctx, b.chunks)}
	}()
}

// batch is a call of the sink that is made up.
type batch struct {
	room   budget
	chunks []queue.Chunk
	lines  []*line
}

// gather takes what is due of a log, as far as there is room, and forgets a log that is over.
func (l *loop) gather(b *batch, n *line, now time.Time) {
	at, ok := n.due(now, l.interval(n))
	if !ok || at.After(now) {
		if n.isOver() {
			delete(l.lines, n)
		}
		return
	}
	if more := n.collect(&b.room); len(more) > 0 {
		b.chunks, b.lines = append(b.chunks, more...), append(b.lines, n)
	}
}

// settle takes note of what became of a call.
func (l *loop) settle(o outcome) {
	l.busy = false
	lost := lostRuns(o.err)
	if o.err != nil && len(lost) == 0 {
		l.pause = min(max(2*l.pause, retryMin), retryMax)
		l.retryAt = time.Now().Add(l.pause)
		for _, n := range o.lines {
			n.failed()
		}
		return
	}
	l.pause, l.retryAt = 0, time.Time{}
	now := time.Now()
	l.progress.Store(int64(now.Sub(l.start)))
	l.crowded.Store(false)
	l.exhausted.Store(false)
	for n := range l.closings { // of whichever log that was: they all have their turn
		n.closing.deadline = earlier(now.Add(l.patience()), n.closing.limit)
	}
	for _, n := range o.lines {
		isLost := slices.Contains(lost, n.log.at.Run)
		freed := n.stored(isLost)
		if isLost {
			freed += n.abandon()
		}
		l.release(freed)
	}
}

// unload moves pieces from memory to disk, and says so when that is over.
func (l *loop) unload() {
	for n := range l.lines {
		freed, err := n.unload()
		l.release(freed)
		if err != nil {
			if l.pause > 0 {
				l.exhausted.Store(true)
			}
			return
		}
	}
}

// end answers those who wait, once nothing is under way any more.
func (l *loop) end() {
	if l.busy {
		l.settle(<-l.outcomes)
	}
	for n := range l.closings {
		l.close(n)
	}
	l.spool.close()
}

var errSpoolFull = errors.New("the spool is full")
