package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/internal/listen"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

// hearing is what a session hears of.
type hearing struct {
	listener     *listen.Listener     // nil: poll only
	subscription *listen.Subscription // to the worker's channel
	closed       chan struct{}
	closing      sync.Once
}

// newHearing listens on the channel of a worker.
func newHearing(store *Store, channel string) *hearing {
	h := &hearing{closed: make(chan struct{})}
	if !store.pollOnly {
		h.listener = store.newListener()
		h.subscription = h.listener.Subscribe(channel)
	}
	return h
}

// listenName is how a connection that listens calls itself.
const listenName = "oarlock listen"

// newListener makes a connection for notifications; the server notices when we vanish.
func (s *Store) newListener() *listen.Listener {
	return listen.New(listen.Options{Config: s.connConfig(listenName), Prepare: s.prepare})
}

// giveWay has the session hear nothing for a while, so that the server has one connection more to give.
func (h *hearing) giveWay() {
	if h.listener != nil {
		h.listener.GiveWay(deafFor)
	}
}

// deafFor is longer than a renewal that failed waits for its next try.
const deafFor = 10 * time.Second

func (h *hearing) close() {
	h.closing.Do(func() {
		close(h.closed)
		if h.listener != nil {
			h.listener.Close()
		}
	})
}

// Hear waits until notifications told something, and returns all of it. They are hints, from anybody: a worker that misses
// them, or never calls this, is told the same by Look and Renew.
func (s *Session) Hear(ctx context.Context) (Heard, error) {
	for {
		signal, err := s.hearing.wait(ctx)
		if err != nil {
			return Heard{}, fmt.Errorf("hear: %w", err)
		}
		heard, logs, lanes := understand(signal)
		s.held.follow(logs)
		s.x.notice(lanes)
		s.x.found.Add(int64(len(lanes)))
		for lane, n := range lanes {
			if s.x.cursors.told(lane, n.at) {
				s.x.lateSince(n.at)
			}
		}
		if heard.Lanes || heard.Drain || heard.All || len(heard.Runs) > 0 {
			return heard, nil
		}
	}
}

func (h *hearing) wait(ctx context.Context) (listen.Signal, error) {
	if h.subscription == nil {
		select {
		case <-ctx.Done():
			return listen.Signal{}, ctx.Err()
		case <-h.closed:
			return listen.Signal{}, ErrClosed
		}
	}
	signal, err := h.subscription.Wait(ctx)
	if errors.Is(err, listen.ErrClosed) {
		err = ErrClosed
	}
	return signal, err
}

// understand drops what is none of our messages: anybody may send. lanes are those with new runs.
func understand(signal listen.Signal) (heard Heard, logs []RunID, lanes map[int]notice) {
	heard.All, lanes = signal.Missed, map[int]notice{}
	for _, payload := range signal.Payloads {
		switch kind, number, _ := strings.Cut(payload, ":"); kind {
		case "drain":
			heard.Drain = heard.Drain || payload == "drain"
		case "lane":
			said := strings.SplitN(number, ":", 3)
			if len(said) < 3 {
				continue
			}
			at := positive(said[2])
			if lane := positive(said[0]); lane > 0 && lane <= math.MaxInt32 && at > 0 && at < latestPlace && len(lanes) < noticedMax {
				heard.Lanes = true
				n := notice{min(positive(said[1]), MaxClaims), time.UnixMilli(at)}
				heard.Rows = min(heard.Rows+int(n.rows), MaxClaims)
				if was, again := lanes[int(lane)]; again {
					n = was.and(n)
				}
				lanes[int(lane)] = n
			}
		case "log":
			if run := positive(number); run > 0 {
				logs = append(logs, RunID(run))
			}
		case "run":
			if run := positive(number); run > 0 {
				heard.Runs = append(heard.Runs, RunID(run))
			}
		}
	}
	slices.Sort(heard.Runs)
	heard.Runs = slices.Compact(heard.Runs) // 7 and 007
	return heard, logs, lanes
}

// latestPlace is the end of the year 9999, in milliseconds: what is later, the database may not take.
const latestPlace = 253402300800000

// positive reads a number as the database writes it; 0 is none.
func positive(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return n
}

// How followers look.
const (
	followPoll    = time.Second      // without having heard anything
	followFor     = 60 * time.Second // what a follower registers for: a crashed one is forgotten then
	followAgain   = followFor / 3
	followTimeout = 5 * time.Second // of a statement that registers or reads
	leaveTimeout  = 2 * time.Second // of the statement that ends a registration
)

var (
	followSQL   = sql.Named("queue/follow")
	unfollowSQL = sql.Named("queue/unfollow")
)

// ears are the store's one LISTEN connection.
type ears struct {
	store *Store

	mu       sync.Mutex
	listener *listen.Listener // nil: nobody followed yet
	closed   bool
}

func newEars(s *Store) *ears { return &ears{store: s} }

// subscribe returns nil where nothing is to be heard: followers then poll.
func (e *ears) subscribe(channel string) *listen.Subscription {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.store.pollOnly {
		return nil
	}
	if e.listener == nil {
		e.listener = e.store.newListener()
	}
	return e.listener.Subscribe(channel)
}

func (e *ears) close() {
	e.mu.Lock()
	listener := e.listener
	e.closed = true
	e.mu.Unlock()
	if listener != nil {
		listener.Close()
	}
}

// follower waits for news of one run. It belongs to one goroutine, and is registered under a channel of its own while
// the server listens for it.
type follower struct {
	store        *Store
	run          RunID
	logs         bool // also of its log
	channel      string
	subscription *listen.Subscription // nil: it polls
	registered   time.Time            // zero: it is not
	looks        int                  // how often it looked since then
}

// freshly is when a follower looks again after it registered: a flush that was under way then has not seen it, and tells it
// nothing of what it brings.
var freshly = [...]time.Duration{10 * time.Millisecond, 40 * time.Millisecond, 160 * time.Millisecond, 640 * time.Millisecond}

func (s *Store) newFollower(run RunID, logs bool) *follower {
	f := &follower{store: s, run: run, logs: logs, channel: "oarlock_f_" + uuid.NewString()}
	f.subscription = s.ears.subscribe(f.channel)
	return f
}

// wait returns when there is news, and at the latest when it is time to look anyway. What matters is what the caller then
// sees, so nobody needs to know why something could not be registered.
func (f *follower) wait(ctx context.Context) error {
	_, err := f.hear(ctx)
	return err
}

// hear waits, and reports whether something may have changed: not so where a follower that would hear of it has heard nothing.
func (f *follower) hear(ctx context.Context) (news bool, err error) {
	blind := f.subscription == nil || f.registered.IsZero() || f.looks < len(freshly)
	waiting, cancel := context.WithTimeout(ctx, f.patience())
	defer cancel()
	if f.subscription == nil {
		<-waiting.Done()
		return true, ctx.Err()
	}
	signal, err := f.subscription.Wait(waiting)
	if signal.Missed || !f.registered.IsZero() && time.Since(f.registered) > followAgain {
		f.register(ctx)
	}
	if err != nil && waiting.Err() == nil {
		return false, ErrClosed
	}
	return blind || err == nil, ctx.Err()
}

// patience is how long to wait for news before looking anyway.
func (f *follower) patience() time.Duration {
	if f.registered.IsZero() || f.looks >= len(freshly) {
		return followPoll
	}
	f.looks++
	return freshly[f.looks-1]
}

// register comes after LISTEN and before the next look, so that nothing falls between.
func (f *follower) register(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	err := f.exec(ctx, followSQL, pgx.StrictNamedArgs{"run": f.run, "channel": f.channel, "seconds": int(followFor.Seconds()), "logs": f.logs})
	if err == nil {
		f.registered, f.looks = time.Now(), 0
	}
}

func (f *follower) exec(ctx context.Context, statement string, args pgx.StrictNamedArgs) error {
	return f.store.with(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, statement, args)
		return err
	})
}

// close also ends the registration, unless the database is away: then it runs out.
func (f *follower) close(ctx context.Context) {
	if f.subscription != nil {
		f.subscription.Close()
	}
	if f.registered.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_ = f.exec(ctx, unfollowSQL, pgx.StrictNamedArgs{"run": f.run, "channel": f.channel})
}

// passes says whether an error is one that a follower waits out.
func passes(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	c := pglink.Classify(err)
	return c != pglink.OK && c != pglink.Permanent
}
