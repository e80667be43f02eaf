package queue

import (
	"sync"
	"time"
)

// A lease ends by itself at these parts of its TTL after the last good renewal was sent: first the driver process kills
// what it runs, then its guard kills whatever is left. Others take the worker for lost after a whole TTL at the earliest.
const (
	softPercent = 60
	hardPercent = 70
)

// heartbeat keeps until when a lease holds, by the time since boot.
type heartbeat struct {
	mu     sync.Mutex
	ttl    time.Duration
	sent   time.Duration // before the last good renewal was sent
	misses int           // renewals running whose count of claims was not ours
	whole  time.Duration // before the last good renewal was sent that counted all claims
	server uint32        // the process of the server that the last renewal asked
}

func newHeartbeat(ttl, sent time.Duration) *heartbeat {
	return &heartbeat{ttl: ttl, sent: sent, whole: sent - recountEvery}
}

// renewed takes in a good renewal. One that was sent earlier than another that succeeded changes nothing.
func (h *heartbeat) renewed(sent time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = max(h.sent, sent)
}

func (h *heartbeat) deadline() (soft, hard time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent + h.ttl*softPercent/100, h.sent + h.ttl*hardPercent/100
}

// recount says whether the next renewal is to count all claims that the database has, and not only those that we know: from
// time to time, as long as the counts differ, and on each new connection, for behind it may be a server that was promoted and
// lacks the end of what its predecessor had.
func (h *heartbeat) recount(now time.Duration, server uint32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if server != h.server {
		h.server, h.whole = server, now-recountEvery
	}
	return h.misses > 0 || now-h.whole >= recountEvery
}

// compared takes in whether a renewal's count of claims was ours.
func (h *heartbeat) compared(same bool, sent time.Duration, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if whole {
		h.whole = max(h.whole, sent)
	}
	if same {
		h.misses = 0
		return
	}
	h.misses++
}

// doubted says whether so many counts running differed that it cannot be something under way.
func (h *heartbeat) doubted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.misses >= doubtfulMisses
}

const (
	doubtfulMisses = 2
	// recountEvery is how often claims are counted that we may not know of: only a fault makes such.
	recountEvery = 5 * time.Second
)
