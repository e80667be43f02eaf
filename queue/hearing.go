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

	"github.com/oarlock-dev/oarlock/internal/listen"
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
