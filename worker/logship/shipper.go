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
	ClosePatience   = 2 * time.Second        // of Close, while nothing is stored
	CloseLimit      = time.Minute            // of Close, even if chunks are stored
	HurriedPatience = 250 * time.Millisecond // takes the place of ClosePatience after Hurry
	WritePatience   = time.Second            // of a write, while nothing is stored
	SpoolPatience   = WritePatience / 4

	DefaultMemoryBytes  = 16 << 20
	DefaultSpoolBytes   = 1 << 30
	DefaultAttemptBytes = 64 << 20

	batchChunks   = queue.MaxAppendChunks
	batchBytes    = queue.MaxAppendBytes
	sendBytes     = 512 << 10 // of one attempt in one call; Close may have to return as much a second time
	appendTimeout = 30 * time.Second
	retryMin      = 50 * time.Millisecond
	retryMax      = 5 * time.Second
	largeWrite    = 4 << 10 // a write of this size will most likely fill a piece
	piecesInOrder = 64      // from this many pieces on, the streams of an attempt are not kept in the order of their bytes
	pieceCost     = 128     // memory that a piece needs besides its bytes
)

// Sink stores chunks. After an error other than a *queue.AppendError, the shipper sends the same chunks again.
type Sink interface {
	AppendLogs(ctx context.Context, chunks []queue.Chunk) error
}

// Config is the configuration of a Shipper. Zero values are replaced by defaults.
type Config struct {
	Sink         Sink
	Followed     func(queue.RunID) bool // reports whether a reader follows a run; nil: no run is followed
	Now          func() time.Time       // returns the time of chunks; nil: time.Now
	Dir          string                 // folder of the spool; "": no spool
	MemoryBytes  int64                  // of all attempts together
	SpoolBytes   int64                  // of all attempts together
	AttemptBytes int64                  // of each attempt
}

// Shipper sends the logs of all attempts of a worker.
type Shipper struct {
	config    Config
	start     time.Time
	memory    atomic.Int64 // bytes of pieces in memory
	count     counters
	progress  atomic.Int64 // when the sink last stored something, in nanoseconds since start
	crowded   atomic.Bool  // a writer has waited long for room: pieces that wait for the sink go to disk
	exhausted atomic.Bool  // the sink fails and the spool takes no more: writers must not wait for room
	hurried   atomic.Bool  // logs end with HurriedPatience
	room      broadcast
	kick      chan struct{} // something is due
	soon      chan struct{} // something will be due before long
	requests  chan request
	stop      chan struct{}
	stopped   chan struct{}
	once      sync.Once
	ending    sync.Mutex // serialises logs that are closed after the shipper has ended
	spool     *spool

	adopting sync.Mutex
	adopted  []*logState // logs that the loop does not know yet
}

// request asks the loop to end a log.
type request struct {
	log    *Log
	reason string
	reply  chan []queue.Chunk
}

// New returns a shipper and starts its goroutine. The caller must call Close.
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

// Close ends the shipper: it cancels the call of the sink under way, ends the logs that wait in Log.Close, and sends nothing more.
// It returns when that is done, and may be called more than once. Logs that are still open can be closed later, but lose all bytes
// that were not sent, except for the last ChunkBytes.
func (s *Shipper) Close() {
	s.once.Do(func() { close(s.stop) })
	<-s.stopped
}

// Hurry makes Log.Close wait only for HurriedPatience while nothing is stored, in calls under way and in later ones.
func (s *Shipper) Hurry() {
	if !s.hurried.Swap(true) {
		rouse(s.kick)
	}
}

// Open returns the log of an attempt, or continues it. at has the attempt's Run, Task, Attempt and Day, the Seq of the next chunk,
// and the number of Lines that began before it. secrets are masked in the log. The caller must call Log.Close.
func (s *Shipper) Open(at queue.Chunk, secrets []string) *Log {
	l := &Log{shipper: s, at: at}
	l.Mask(secrets)
	l.streams = [2]stream{{l, queue.StreamStdout}, {l, queue.StreamStderr}}
	l.line = &logState{log: l, spool: s.spool, next: at.Seq, count: queue.LineCounter{Lines: at.Lines}}
	return l
}

// adopt makes the loop look after a log that got its first bytes. Most logs are over before the loop has to do anything.
func (s *Shipper) adopt(n *logState) {
	s.adopting.Lock()
	s.adopted = append(s.adopted, n)
	s.adopting.Unlock()
}

// rouse puts a token into signal, unless there is one already. It never waits.
func rouse(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// reserve reserves memory for n bytes, and waits for room if there is none; the caller, or the loop, releases it. After
// SpoolPatience it has the loop move pieces to disk. It returns false, without memory, if the sink stores nothing for
// WritePatience, if the shipper is exhausted, or if it has ended.
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

// stalled returns for how long the sink has stored nothing.
func (s *Shipper) stalled() time.Duration {
	return time.Since(s.start) - time.Duration(s.progress.Load())
}

// take reserves memory for n bytes if there is room, and reports whether there was.
func (s *Shipper) take(n int64) bool {
	if s.memory.Add(n) <= s.config.MemoryBytes {
		return true
	}
	s.memory.Add(-n)
	return false
}

// release gives reserved memory for n bytes back, and wakes the writers that wait for room.
func (s *Shipper) release(n int64) {
	s.memory.Add(-n)
	s.room.tell()
}

// lostRuns returns the runs of which the sink will never store a chunk, from the error of a call. It returns nil for an error that
// names no runs.
func lostRuns(err error) []queue.RunID {
	if left, ok := errors.AsType[*queue.AppendError](err); ok {
		return append(append([]queue.RunID{}, left.Lost...), left.Conflicts...)
	}
	return nil
}

// broadcast wakes all goroutines that wait.
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
