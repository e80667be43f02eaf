package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

const (
	sessionIdleTime = 12 * time.Hour
	sessionTime     = 7 * 24 * time.Hour
	sessionsMax     = 10_000
	sessionsOfOne   = 50 // of one user; the one unused for the longest time makes room
)

// session is the session of one user in one browser. It is in memory only, so it ends with the process.
type session struct {
	user user
	key  accountKey // of the account that answers its requests
	ends time.Time
	used time.Time       // guarded by sessions
	over context.Context //nolint:containedctx // done when the session is over, which ends its requests
	end  context.CancelFunc
}

// sessions holds the open sessions by the hash of their token. A copy of the server's memory does not reveal any token.
type sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*session
}

func newSessions() *sessions { return &sessions{all: map[[sha256.Size]byte]*session{}} }

// open adds a session that ends after lasts at the latest, and returns its token for the browser. If the user has sessionsOfOne
// already, it ends the one that was unused for the longest time. It returns "" if all users together have sessionsMax.
func (s *sessions) open(u user, key accountKey, lasts time.Duration) string {
	token, now := rand.Text(), time.Now()
	opened := &session{user: u, key: key, ends: now.Add(lasts), used: now}
	opened.over, opened.end = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoomLocked(u)
	if len(s.all) >= sessionsMax {
		opened.end()
		return ""
	}
	s.all[sha256.Sum256([]byte(token))] = opened
	return token
}

// makeRoomLocked ends and removes the session of the user that was unused for the longest time, if the user has sessionsOfOne.
func (s *sessions) makeRoomLocked(u user) {
	var oldest *session
	var at [sha256.Size]byte
	count := 0
	for key, one := range s.all {
		if one.user.Name != u.Name || one.user.Role != u.Role {
			continue
		}
		if count++; oldest == nil || one.used.Before(oldest.used) {
			oldest, at = one, key
		}
	}
	if count >= sessionsOfOne {
		oldest.end()
		delete(s.all, at)
	}
}

// find returns the session of a token, and counts this as a use of it. It returns nil if there is none or it has expired.
func (s *sessions) find(token string) *session {
	if token == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, now := s.all[sha256.Sum256([]byte(token))], time.Now()
	if found == nil || found.expired(now) {
		return nil
	}
	found.used = now
	return found
}

func (s *session) expired(now time.Time) bool {
	return now.Sub(s.used) > sessionIdleTime || now.After(s.ends)
}

// close ends and removes the session of a token. It does nothing if there is none.
func (s *sessions) close(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(token))
	found := s.all[key]
	if found != nil {
		found.end()
		delete(s.all, key)
	}
}

// keys returns the keys of the accounts that have sessions.
func (s *sessions) keys() map[accountKey]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := map[accountKey]bool{}
	for _, one := range s.all {
		keys[one.key] = true
	}
	return keys
}

// endWhere ends and removes the sessions for which over returns true. over must not call methods of s.
func (s *sessions) endWhere(over func(*session) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, one := range s.all {
		if over(one) {
			one.end()
			delete(s.all, key)
		}
	}
}

const (
	sessionCookie = "oarlock_session"
	attemptCookie = "oarlock_attempt"
)

// cookieName returns the name of a cookie. Over https it has the prefix __Host-: browsers then accept the cookie from this host
// only, so that no other host of the domain can set it.
func (s *Site) cookieName(name string) string {
	if s.options.Secure {
		return "__Host-" + name
	}
	return name
}

// setCookie sets a cookie for age. An empty value deletes the cookie.
func (s *Site) setCookie(w http.ResponseWriter, name, value string, age time.Duration) {
	c := &http.Cookie{ //nolint:gosec // without https no browser would send a Secure cookie, and the pages are served on loopback only
		Name: s.cookieName(name), Value: value, Path: "/", MaxAge: int(age.Seconds()), Secure: s.options.Secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// cookie returns the value of a cookie; "" for none.
func (s *Site) cookie(r *http.Request, name string) string {
	if c, err := r.Cookie(s.cookieName(name)); err == nil {
		return c.Value
	}
	return ""
}
