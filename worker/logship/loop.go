package logship

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// loop sends the logs of a shipper. It examines a log only when something is due, not whenever a log is opened, written to or
// closed.
type loop struct {
	*Shipper
	lines    map[*logState]bool
	closings map[*logState]bool // logs that wait for their end, until the loop has sent enough of them
	outcomes chan outcome
	busy     bool
	timer    *time.Timer
	alarm    time.Time // when the timer fires

	pause   time.Duration // pause after a failure; 0: the last call succeeded
	retryAt time.Time
}

// outcome is the result of one call of the sink.
type outcome struct {
	lines []*logState
	err   error
}

func newLoop(s *Shipper) *loop {
	return &loop{
		Shipper: s, lines: map[*logState]bool{}, closings: map[*logState]bool{}, outcomes: make(chan outcome, 1),
		timer: time.NewTimer(time.Hour), alarm: time.Now().Add(time.Hour),
	}
}

// run is the goroutine that owns the pieces of a shipper, until Shipper.Close.
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

// lookWithin makes the timer fire within d. It leaves a timer alone that fires earlier.
func (l *loop) lookWithin(d time.Duration) {
	if at := time.Now().Add(d); at.Before(l.alarm) {
		l.alarm = at
		l.timer.Reset(d)
	}
}

// learn moves the logs that have got their first bytes from l.adopted to l.lines.
func (l *loop) learn() {
	l.adopting.Lock()
	defer l.adopting.Unlock()
	for i, n := range l.adopted {
		l.lines[n], l.adopted[i] = true, nil
	}
	l.adopted = l.adopted[:0]
}

// accept takes up the request to end a log: it enters the log in l.lines and l.closings, and sets how long the loop tries to send
// the rest of it. advance ends the log later.
func (l *loop) accept(r request) {
	n := r.log.line
	l.learn()
	l.lines[n], l.closings[n] = true, true
	now := time.Now()
	n.closing = &closing{r, now.Add(l.patience()), now.Add(CloseLimit)}
}

// patience returns how long a log that is to end waits while nothing is stored: ClosePatience, or HurriedPatience after
// Shipper.Hurry.
func (l *loop) patience() time.Duration {
	if l.hurried.Load() {
		return HurriedPatience
	}
	return ClosePatience
}

// hurry gives all logs that are to end at most HurriedPatience from now.
func (l *loop) hurry(now time.Time) {
	for n := range l.closings {
		n.closing.deadline = earlier(n.closing.deadline, now.Add(HurriedPatience))
	}
}

// advance does all work that is due and needs no waiting: it ends logs that are ready or out of time, moves pieces to disk, starts
// a call of the sink, and sets the timer for the next work.
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

// close ends a log and forgets it. It returns the last chunks to the caller of Log.Close.
func (l *loop) close(n *logState) {
	delete(l.lines, n)
	delete(l.closings, n)
	n.closing.reply <- n.finish(n.closing.reason)
	n.closing = nil
}

// sleep returns how long the loop may wait for an event before it must look again: from a millisecond to an hour. The wait ends
// when a log that is to end reaches its deadline, or when a log has something to send. While a call of the sink is under way, only
// the deadlines matter: the end of that call is an event, and the loop sends again then.
func (l *loop) sleep(now time.Time) time.Duration {
	next := now.Add(time.Hour)
	for n := range l.closings {
		next = earlier(next, n.closing.deadline)
	}
	if l.busy {
		return max(next.Sub(now), time.Millisecond) // the end of the call is an event
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

// interval returns how old a piece of the log may become before it is sent.
func (l *loop) interval(n *logState) time.Duration {
	if l.config.Followed(n.log.at.Run) {
		return WatchedInterval
	}
	return FlushInterval
}

// send starts one call of the sink, in a goroutine, with the pieces that are due. Logs that are to end come first. It sets l.busy
// until settle gets the outcome. If nothing is due, it does nothing. The caller has checked that no call is under way.
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

// batch collects the chunks of one call of the sink.
type batch struct {
	room   budget
	chunks []queue.Chunk
	lines  []*logState
}

// gather adds the pieces of a log to a batch if the log is due, as many as there is room for. It removes a log that is over from
// l.lines.
func (l *loop) gather(b *batch, n *logState, now time.Time) {
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

// settle handles the outcome of the call that send started. If the call failed, its pieces are due again after a pause, which
// doubles each time. If it succeeded, settle removes them, frees their memory, and gives the logs that are to end more time. It
// counts an error that names lost runs as a success, and abandons the logs of these runs.
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
	for n := range l.closings { // a chunk of any log counts, because all logs get their turn
		n.closing.deadline = earlier(now.Add(l.patience()), n.closing.limit)
	}
	for _, n := range o.lines {
		if slices.Contains(lost, n.log.at.Run) {
			l.release(n.abandon())
		} else {
			l.release(n.stored())
		}
	}
}

// unload moves large pieces of all logs from memory to disk. If the disk takes no more, it stops; if the sink fails as well, it
// marks the shipper as exhausted, so that writers do not wait for room.
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

// end waits for the present call of the sink, then ends all logs that wait for their end, and closes the spool.
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
