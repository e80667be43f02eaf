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
	misses int           // renewals running that did not find the claims we know of as we do
}

// LeaseEnds says when a lease ends by itself, from the moment in which the last good renewal was sent.
func LeaseEnds(ttl time.Duration) (soft, hard time.Duration) {
	return ttl * softPercent / 100, ttl * hardPercent / 100
}

func newHeartbeat(ttl, sent time.Duration) *heartbeat {
	return &heartbeat{ttl: ttl, sent: sent}
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
	soft, hard = LeaseEnds(h.ttl)
	return h.sent + soft, h.sent + hard
}

// compared takes in whether a renewal found the claims that we know of as we do. It says whether so many running did not that
// it cannot be something under way.
func (h *heartbeat) compared(same bool) (doubtful bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.misses++
	if same {
		h.misses = 0
	}
	return h.misses >= doubtfulMisses
}

const doubtfulMisses = 2
