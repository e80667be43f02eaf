package logship

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// Limits and intervals.
const (
	ChunkBytes      = 32 << 10
	FlushInterval   = 250 * time.Millisecond
	WatchedInterval = 20 * time.Millisecond
	ClosePatience   = 2 * time.Second        // of a log that ends, as long as nothing is stored
	CloseLimit      = time.Minute            // whatever is stored
	HurriedPatience = 250 * time.Millisecond // as ClosePatience, after Hurry
	WritePatience   = time.Second            // of a write, as long as nothing is stored
	SpoolPatience   = WritePatience / 4

	DefaultMemoryBytes  = 16 << 20
	DefaultSpoolBytes   = 1 << 30
	DefaultAttemptBytes = 64 << 20

	batchChunks   = queue.MaxAppendChunks
	batchBytes    = queue.MaxAppendBytes
	sendBytes     = 512 << 10 // of one attempt in one call: what a Close may have to hand over a second time
	appendTimeout = 30 * time.Second
	retryMin      = 50 * time.Millisecond
	retryMax      = 5 * time.Second
	largeWrite    = 4 << 10 // what writes as much at once will most likely fill a piece
	piecesInOrder = 64      // of an attempt; past it, pieces of two streams are no longer kept in the order they came
	pieceCost     = 128     // what a piece takes in memory besides its bytes
)

// Sink stores chunks. Any error but a *queue.AppendError means that the same chunks have to be sent again.
type Sink interface {
	AppendLogs(ctx context.Context, chunks []queue.Chunk) error
}

// Config of a Shipper. Zero values stand for the defaults.
type Config struct {
	Sink         Sink
	Followed     func(queue.RunID) bool // whether somebody follows a run; nil: nobody ever
	Now          func() time.Time       // the time of chunks; nil: time.Now
	Dir          string                 // where to spool; "": nowhere
	MemoryBytes  int64                  // of all attempts together
	SpoolBytes   int64                  // of all attempts together
	AttemptBytes int64                  // of each
}

// Shipper sends the logs of all attempts of a worker.
type Shipper struct {
	config    Config
	start     time.Time
	memory    atomic.Int64 // bytes of pieces in memory
	count     counters
	progress  atomic.Int64 // when the sink last took something, in nanoseconds since start
	crowded   atomic.Bool  // somebody has waited for room for long: what the sink does not take goes to disk
	exhausted atomic.Bool  // the sink fails and the spool takes nothing more: waiting for room is in vain
	hurried   atomic.Bool  // logs that end wait for next to nothing
	room      broadcast
	kick      chan struct{} // something is there to be sent
	soon      chan struct{} // something will be, before long
	requests  chan request
	stop      chan struct{}
	stopped   chan struct{}
	once      sync.Once
	ending    sync.Mutex // logs that are closed after the shipper: one at a time
	spool     *spool

	adopting sync.Mutex
	adopted  []*line // that the loop is to look after, and does not know yet
}

// request asks the loop to end a log.
type request struct {
	log    *Log
	reason string
	reply  chan []queue.Chunk
}

// New starts a shipper; Close ends it.
func New(c Config) *Shipper {
	if c.Followed == nil {
		c.Followed = func(queue.RunID) bool { return false }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	for limit, standard := range map[*int64]int64{
		&c.MemoryBytes: DefaultMemoryBytes, &c.SpoolBytes: DefaultSpoolBytes, &c.AttemptBytes: DefaultAttemptBytes,
	} {
		if *limit <= 0 {
			*limit = standard
		}
	}
	s := &Shipper{
		config: c, start: time.Now(), kick: make(chan struct{}, 1), soon: make(chan struct{}, 1), requests: make(chan request),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.spool = &spool{dir: c.Dir, most: c.SpoolBytes, written: &s.count.spooled}
	go newLoop(s).run()
	return s
}

// Close ends the shipper. Logs that are still open lose what was not sent.
func (s *Shipper) Close() {
	s.once.Do(func() { close(s.stop) })
	<-s.stopped
}

// Hurry has logs end soon from now on where nothing is stored.
func (s *Shipper) Hurry() {
	if !s.hurried.Swap(true) {
		rouse(s.kick)
	}
}

// Open starts the log of an attempt, or goes on with it: at says of which, by its Run, Task, Attempt and Day, from which Seq on, and how many Lines began before. Secrets are masked in it.
func (s *Shipper) Open(at queue.Chunk, secrets []string) *Log {
	l := &Log{shipper: s, at: at}
	l.Mask(secrets)
	l.streams = [2]stream{{l, queue.StreamStdout}, {l, queue.StreamStderr}}
	l.line = &line{log: l, spool: s.spool, next: at.Seq, count: queue.LineCounter{Lines: at.Lines}}
	return l
}

// adopt has the loop look after a log that something was written to: most are over before it has to.
func (s *Shipper) adopt(n *line) {
	s.adopting.Lock()
	s.adopted = append(s.adopted, n)
	s.adopting.Unlock()
}

// rouse has the loop look, at once or before long.
func rouse(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// reserve takes room for n bytes, waiting a while for it if there is hope.
func (s *Shipper) reserve(n int64) bool {
	if s.take(n) {
		return true
	}
	rouse(s.kick)
	long, over := time.NewTimer(SpoolPatience), time.NewTimer(WritePatience)
	defer long.Stop()
	defer over.Stop()
	for {
		room := s.room.wait()
		if s.take(n) {
			return true
		}
		if s.exhausted.Load() {
			return false
		}
		select {
		case <-room:
		case <-long.C:
			s.crowded.Store(true)
			rouse(s.kick)
			long.Reset(SpoolPatience)
		case <-over.C:
			if left := WritePatience - s.stalled(); left > 0 {
				over.Reset(left)
				continue
			}
			s.exhausted.Store(true) // until something is stored again
			return false
		case <-s.stopped:
			return false
		}
	}
}

// stalled is for how long the sink has taken nothing.
func (s *Shipper) stalled() time.Duration {
	return time.Since(s.start) - time.Duration(s.progress.Load())
}

func (s *Shipper) take(n int64) bool {
	if s.memory.Add(n) <= s.config.MemoryBytes {
		return true
	}
	s.memory.Add(-n)
	return false
}

func (s *Shipper) release(n int64) {
	s.memory.Add(-n)
	s.room.tell()
}

// lostRuns are those whose chunks the sink will never take.
func lostRuns(err error) []queue.RunID {
	if left, ok := errors.AsType[*queue.AppendError](err); ok {
		return append(append([]queue.RunID{}, left.Lost...), left.Conflicts...)
	}
	return nil
}

// broadcast wakes all who wait.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
