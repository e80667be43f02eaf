package signin

import (
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
	keys map[string]*rate.Limiter
	now  func() time.Time
}

// NewLimiter returns a Limiter.
func NewLimiter() *Limiter {
	return &Limiter{keys: map[string]*rate.Limiter{}, now: time.Now}
}

// Allow counts one attempt for each key, and reports whether all of them had one left.
func (l *Limiter) Allow(keys ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, allowed := l.now(), true
	for _, key := range keys {
		allowed = l.keyLocked(key, now).AllowN(now, 1) && allowed
	}
	return allowed
}

// keyLocked is the limit of a key. Keys that have all their attempts again make room; where none has, the table is full of keys
// that were tried within the last minute, and starts anew.
func (l *Limiter) keyLocked(key string, now time.Time) *rate.Limiter {
	if found := l.keys[key]; found != nil {
		return found
	}
	if len(l.keys) >= limitedKeysMax {
		for other, limit := range l.keys {
			if limit.TokensAt(now) >= attemptsPerMinute {
				delete(l.keys, other)
			}
		}
	}
	if len(l.keys) >= limitedKeysMax {
		clear(l.keys)
	}
	made := rate.NewLimiter(rate.Every(time.Minute/attemptsPerMinute), attemptsPerMinute)
	l.keys[key] = made
	return made
}
