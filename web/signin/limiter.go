package signin

import (
	"crypto/sha256"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	attemptsPerMinute = 5
	limitedKeysMax    = 10_000
)

// Limiter bounds attempts to sign in: 5 a minute for each address, and for each name.
type Limiter struct {
	mu   sync.Mutex
	keys map[limitedKey]*rate.Limiter
	now  func() time.Time
}

// limitedKey is the hash of a key, because names may be long.
type limitedKey [sha256.Size]byte

// NewLimiter returns a Limiter.
func NewLimiter() *Limiter {
	return &Limiter{keys: map[limitedKey]*rate.Limiter{}, now: time.Now}
}

// Allow counts one attempt for each key, and reports whether all keys had an attempt left. It stops at the first key that has none,
// and does not count that key or those after it. The caller calls undo if the attempt was right, so that right sign-ins cost
// nothing to other users of the same address.
func (l *Limiter) Allow(keys ...string) (undo func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, counted := l.now(), make([]*rate.Reservation, 0, len(keys))
	ok = true
	for _, key := range keys {
		limit := l.keyLocked(sha256.Sum256([]byte(key)), now)
		if limit.TokensAt(now) < 1 {
			ok = false // the keys after this one are not counted: a refused client locks out no other name
			break
		}
		counted = append(counted, limit.ReserveN(now, 1))
	}
	return func() {
		for _, one := range counted {
			one.CancelAt(now)
		}
	}, ok
}

// IsSpent reports whether a key has no attempt left. It counts nothing; it is for callers that count only failed attempts.
func (l *Limiter) IsSpent(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.keys[sha256.Sum256([]byte(key))]
	return found != nil && found.TokensAt(l.now()) < 1
}

// keyLocked returns the limit of a key, and adds a new one if there is none. If the table is full, it first removes the keys with
// the most attempts left, because that gives the least attempts back. A key without attempts is removed only if all keys are
// without, so a flood of names frees no address.
func (l *Limiter) keyLocked(key limitedKey, now time.Time) *rate.Limiter {
	if found := l.keys[key]; found != nil {
		return found
	}
	for left := attemptsPerMinute; len(l.keys) >= limitedKeysMax; left-- {
		for other, limit := range l.keys {
			if limit.TokensAt(now) >= float64(left) {
				delete(l.keys, other)
			}
		}
	}
	made := rate.NewLimiter(rate.Every(time.Minute/attemptsPerMinute), attemptsPerMinute)
	l.keys[key] = made
	return made
}
