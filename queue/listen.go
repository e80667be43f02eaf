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

// sessionListener receives the notifications of a session.
type sessionListener struct {
	listener     *listen.Listener     // nil: the session only polls
	subscription *listen.Subscription // to the worker's channel
	closed       chan struct{}
	closing      sync.Once
}

// newSessionListener makes the listener of a worker, which listens on channel. With Config.PollOnly it has no connection and
// hears nothing. The caller closes it.
func newSessionListener(store *Store, channel string) *sessionListener {
	h := &sessionListener{closed: make(chan struct{})}
	if !store.pollOnly {
		h.listener = store.newListener()
		h.subscription = h.listener.Subscribe(channel)
	}
	return h
}

// listenName is the application_name of connections that listen.
const listenName = "oarlock listen"

// newListener makes a listener with a connection of its own. The server notices soon if this process vanishes. The caller closes
// the listener.
func (s *Store) newListener() *listen.Listener {
	return listen.New(listen.Options{Config: s.connConfig(listenName), Prepare: s.prepare})
}

// giveWay closes the connection for deafFor, so that the server can give the session another connection instead. A session
// without a listener has nothing to close.
func (h *sessionListener) giveWay() {
	if h.listener != nil {
		h.listener.GiveWay(deafFor)
	}
}

// deafFor is longer than the wait between a failed renewal and its next try.
const deafFor = 10 * time.Second

func (h *sessionListener) close() {
	h.closing.Do(func() {
		close(h.closed)
		if h.listener != nil {
			h.listener.Close()
		}
	})
}

// Hear blocks until there is a notification for the worker, and returns all that have come. Before that it passes news about
// lanes to the next poll, and remembers which runs have readers that follow their logs; news about logs alone does not end the
// wait. With Config.PollOnly it only waits for the end of ctx or the session, and returns an error then.
//
// Notifications are hints, and any connection may send them. A worker that misses some, or never calls Hear, learns the same from
// Look and Renew.
func (s *Session) Hear(ctx context.Context) (Heard, error) {
	for {
		signal, err := s.listener.wait(ctx)
		if err != nil {
			return Heard{}, fmt.Errorf("hear: %w", err)
		}
		heard, logs, lanes := parseNotice(signal)
		s.held.follow(logs)
		s.x.notice(lanes)
		s.x.found.Add(int64(len(lanes)))
		for lane, n := range lanes {
			if s.x.cursors.told(lane, n.at) {
				s.x.lateSince(n.at)
			}
		}
		if heard.Lanes || heard.Drain || heard.Permits || heard.All || len(heard.Runs) > 0 {
			return heard, nil
		}
	}
}

func (h *sessionListener) wait(ctx context.Context) (listen.Signal, error) {
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

// parseNotice parses the messages of a signal. It drops messages of another form, because any connection may send. heard.Runs
// comes sorted, each run once. logs are the runs with readers that follow their logs. lanes are the lanes with new runs, at most
// noticedMax, each with its messages summed up.
func parseNotice(signal listen.Signal) (heard Heard, logs []RunID, lanes map[int]notice) {
	heard.All, lanes = signal.Missed, map[int]notice{}
	for _, payload := range signal.Payloads {
		switch kind, number, _ := strings.Cut(payload, ":"); kind {
		case "drain":
			heard.Drain = heard.Drain || payload == "drain"
		case "permits":
			heard.Permits = heard.Permits || payload == "permits"
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
	heard.Runs = slices.Compact(heard.Runs) // a run may come twice, as 7 and 007
	return heard, logs, lanes
}

// latestPlace is the end of the year 9999, in milliseconds. The database may refuse later times.
const latestPlace = 253402300800000

// positive parses text as a decimal number above 0. It returns 0 for anything else, 0 and overflows included. It also accepts
// forms that the database never writes, such as 007 and +7.
func positive(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return n
}

// How followers look for news.
const (
	followPoll    = time.Second      // if nothing was heard
	followFor     = 60 * time.Second // how long a registration lasts; a crashed follower is forgotten after that
	followAgain   = followFor / 3
	followTimeout = 5 * time.Second // of a statement that registers a follower or reads
	leaveTimeout  = 2 * time.Second // of the statement that ends a registration
)

var (
	followSQL   = sql.Named("queue/follow")
	unfollowSQL = sql.Named("queue/unfollow")
)

// logListener is the store's LISTEN connection, shared by its followers.
type logListener struct {
	store *Store

	mu       sync.Mutex
	listener *listen.Listener // nil: there was no follower yet
	closed   bool
}

func newLogListener(s *Store) *logListener { return &logListener{store: s} }

// subscribe returns a subscription to channel, which the caller closes. The first call makes the listener. It returns nil if the
// store is closed or has Config.PollOnly. The follower then polls.
func (e *logListener) subscribe(channel string) *listen.Subscription {
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

func (e *logListener) close() {
	e.mu.Lock()
	listener := e.listener
	e.closed = true
	e.mu.Unlock()
	if listener != nil {
		listener.Close()
	}
}

// follower waits for news of one run. One goroutine owns it. It is registered under a channel of its own while the server listens
// on that channel.
type follower struct {
	store        *Store
	run          RunID
	logs         bool // also wait for news of the run's logs
	channel      string
	subscription *listen.Subscription // nil: the follower polls
	registered   time.Time            // when it registered; zero: it is not registered
	looks        int                  // number of looks since then
}

// freshly is how soon a follower looks again after it registered. A flush that was under way at that time has not seen the
// registration, and does not notify the follower.
var freshly = [...]time.Duration{10 * time.Millisecond, 40 * time.Millisecond, 160 * time.Millisecond, 640 * time.Millisecond}

func (s *Store) newFollower(run RunID, logs bool) *follower {
	f := &follower{store: s, run: run, logs: logs, channel: "oarlock_f_" + uuid.NewString()}
	f.subscription = s.logListener.subscribe(f.channel)
	return f
}

// wait blocks until there is news of the run, or until it is time to look anyway. It returns an error only if ctx has ended or
// the store was closed. A follower that could not register polls instead, and its caller sees any change at the next look.
func (f *follower) wait(ctx context.Context) error {
	_, err := f.hear(ctx)
	return err
}

// hear waits for news, at most followPoll, and reports whether something may have changed. It returns false only if the follower
// is registered, was not just registered, and heard nothing. A follower that is not registered cannot know, so it gets true. hear
// also registers the follower when it is time to. It returns an error only if ctx has ended or the store was closed.
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

// patience returns how long to wait for news before the next look, and counts that look. The first looks after register come
// after the short waits of freshly, all others after followPoll.
func (f *follower) patience() time.Duration {
	if f.registered.IsZero() || f.looks >= len(freshly) {
		return followPoll
	}
	f.looks++
	return freshly[f.looks-1]
}

// register registers the follower in the database, and makes patience begin with short waits again. An error is ignored: the
// follower then only polls. It runs after LISTEN and before the next look, so that no change falls in between.
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

// close ends the subscription, and then the registration, even if ctx has ended. If the database is away, close gives up after
// leaveTimeout, and the registration expires by itself.
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

// passes reports whether a follower waits and looks again after err, because the database may recover. It returns false once ctx
// has ended, for errors that waiting cannot mend, and for nil.
func passes(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	c := pglink.Classify(err)
	return c != pglink.OK && c != pglink.Permanent
}
