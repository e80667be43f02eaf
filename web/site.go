package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/signin"
)

const (
	sweepInterval   = 10 * time.Second // between two sweeps of expired sessions and accounts
	accountIdleTime = time.Minute      // how long an account without sessions keeps its connections
	readyInterval   = time.Second      // between two reads of the database's readiness
	programTime     = 15 * time.Minute // limit of a request without a session: a longer stream has to sign in again
	recheckInterval = time.Minute      // between two checks that the database still accepts a login
	recheckTimeout  = 5 * time.Second
	accountsMax     = 100 // logins of the database in use, each with up to three connections
)

// ErrWrongLogin means that the database refuses a name with its password.
var ErrWrongLogin = errors.New("the database refuses this name and password")

// ErrTrusted means that the database accepts a login without a password, so a password proves nothing.
var ErrTrusted = errors.New("the database asks for no password (trust): sign-in by a login of the database needs one; see pg_hba.conf")

// Login is a login of the database, with all that its pages need.
type Login struct {
	Store  *queue.Store
	Doctor func(context.Context) ([]Check, error) // as in Options
	Check  func(context.Context) error            // returns ErrWrongLogin once the database refuses the login; nil: no check
}

// SiteOptions are the settings of a Site. One of Connect, Passwords, Provider and Proxy is the way in which users sign in.
type SiteOptions struct {
	Options

	Secure  bool           // browsers reach the site by https
	Proxies []netip.Prefix // proxies that are trusted to name the client in X-Forwarded-For

	Connect   func(ctx context.Context, name, password string) (Login, error) // opens a login, or returns ErrWrongLogin
	Passwords *signin.Passwords
	Provider  *signin.Provider
	Proxy     *signin.Proxy

	Roles  signin.Roles          // roles of users that are no logins of the database
	Logins map[signin.Role]Login // login that acts for each role; the caller closes their stores

	Ready func(context.Context) error // returns nil if the database can be read
}

// Site serves pages to users that sign in. Each login of the database has pages of its own, so that no user sees or does more
// than the login may.
type Site struct {
	options  SiteOptions
	front    *server // serves requests of users that have not signed in
	handler  http.Handler
	sessions *sessions
	limits   *signin.Limiter
	ready    cached[struct{}]
	reads    atomic.Int64                       // how often the file of passwords was read again
	proofs   kept[[sha256.Size]byte, time.Time] // when a program's name and password were found right, by their hash

	mu       sync.Mutex
	accounts map[accountKey]*account
	retired  []*account // accounts that were replaced or have expired, until their last request is over
	sweeping context.CancelFunc
	swept    chan struct{}
}

// accountKey is a role, or a name with the hash of its password.
type accountKey struct {
	role  signin.Role
	name  string
	proof [sha256.Size]byte
}

// account is the pages of one login of the database.
type account struct {
	key   accountKey
	login Login
	pages http.Handler

	// The fields below are guarded by Site.mu.
	uses    int       // requests in progress
	idle    time.Time // time at which uses became 0
	checked time.Time // last time at which the database accepted the login
}

// user is the sender of a request.
type user struct {
	Name string
	Role signin.Role // "" for a login of the database: the roles of the login in the database count

	client string // address of the client
}

type userKey struct{}

// userOf returns the user of a request; nil where there is no sign-in.
func userOf(ctx context.Context) *user {
	u, _ := ctx.Value(userKey{}).(*user)
	return u
}

// clientOf returns the address of a request's client. With sign-in, Site.clientOf has found it; else it is the address of the peer
// with its port.
func clientOf(r *http.Request) string {
	if u := userOf(r.Context()); u != nil {
		return u.client
	}
	return r.RemoteAddr
}

// nameOf returns the name of a request's user; "" where there is no sign-in.
func nameOf(ctx context.Context) string {
	if u := userOf(ctx); u != nil {
		return u.Name
	}
	return ""
}

// NewSite returns a site and starts its sweeps. The caller closes the site when it is no longer served.
func NewSite(o SiteOptions) (*Site, error) {
	front, err := newServer(nil, o.Options)
	if err != nil {
		return nil, err
	}
	front.secure, front.signOut = o.Secure, o.Proxy == nil
	s := &Site{
		options: o, front: front, sessions: newSessions(), limits: signin.NewLimiter(),
		accounts: map[accountKey]*account{}, swept: make(chan struct{}),
	}
	for role, login := range o.Logins {
		s.addAccount(accountKey{role: role}, login)
	}
	s.ready.read, s.ready.interval, s.ready.timeout = func(ctx context.Context) (struct{}, error) { return struct{}{}, o.Ready(ctx) }, readyInterval, lookTimeout
	s.handler = front.guard(s.routes())
	ctx, stop := context.WithCancel(context.Background())
	s.sweeping = stop
	go s.sweep(ctx)
	return s, nil
}

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close waits for a sweep in progress, ends all sessions, and closes the stores that SiteOptions.Connect opened. The caller closes
// the stores of SiteOptions.Logins.
func (s *Site) Close() {
	s.sweeping()
	<-s.swept
	s.sessions.endWhere(func(*session) bool { return true })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range append(slices.Collect(maps.Values(s.accounts)), s.retired...) {
		s.closeAccount(a)
	}
	clear(s.accounts)
	s.retired = nil
}

// closeAccount closes the store of an account, unless the caller of NewSite owns it.
func (s *Site) closeAccount(a *account) {
	if a.key.role == "" {
		a.login.Store.Close()
	}
}

// routes returns the handler of all requests: a few pages need no sign-in, all others go to servePages.
func (s *Site) routes() http.Handler {
	mux := http.NewServeMux()
	open := func(method, path string, page pageFunc) { s.front.handle(mux, method, path, page) }
	open(http.MethodGet, "/livez", s.front.livez)
	open(http.MethodGet, "/readyz", s.readyz)
	open(http.MethodGet, "/asset/{hash}/{name}", s.front.asset)
	open(http.MethodGet, "/theme", s.front.theme)
	open(http.MethodGet, "/login", s.loginPage)
	open(http.MethodPost, "/login", s.login)
	open(http.MethodGet, "/login/begin", s.begin)
	open(http.MethodGet, "/login/callback", s.callback)
	open(http.MethodPost, "/logout", s.logout)
	mux.HandleFunc("/", s.servePages)
	return mux
}

// readyz answers with status 200 if SiteOptions.Ready returned nil within the last readyInterval, else with 503.
func (s *Site) readyz(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.ready.get(r.Context()); err != nil {
		return sayLine(w, http.StatusServiceUnavailable, problemOf(err).message)
	}
	return sayLine(w, http.StatusOK, "ok")
}

// servePages identifies the user of a request, and lets the pages of the user's account answer. It cancels the request when the
// user's session ends. A request without a session is canceled after programTime.
func (s *Site) servePages(w http.ResponseWriter, r *http.Request) {
	found, err := s.identify(r)
	if err != nil {
		s.turnAway(w, r, err)
		return
	}
	defer s.release(found.account)
	found.user.client = s.clientOf(r)
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), userKey{}, &found.user))
	defer cancel()
	if found.session != nil {
		defer context.AfterFunc(found.session.over, cancel)() // a stream ends when its session ends
	} else {
		defer time.AfterFunc(programTime, cancel).Stop()
	}
	if found.user.Role != "" {
		ctx = queue.WithActor(ctx, found.user.Name)
	}
	found.account.pages.ServeHTTP(w, r.WithContext(ctx))
}

// identity is the user of a request, the account that answers, and the session; nil for a request without a session.
type identity struct {
	user    user
	account *account
	session *session
}

// Reasons for which a request is not answered.
var (
	errSignIn  = errors.New("no user has signed in")
	errTooMany = errors.New("too many attempts")
)

// identify returns the identity of a request. With SiteOptions.Proxy, the headers of the proxy decide alone. Otherwise a
// request of the API with the header Authorization is a program's, and any other request needs the cookie of a session;
// without one identify returns errSignIn. The caller releases the account of the identity.
func (s *Site) identify(r *http.Request) (*identity, error) {
	if s.options.Proxy != nil {
		person, err := s.options.Proxy.Person(r)
		if err != nil {
			return nil, err
		}
		return s.acting(person)
	}
	if s.front.isAPI(r) && r.Header.Get("Authorization") != "" {
		return s.program(r)
	}
	session := s.sessions.find(s.cookie(r, sessionCookie))
	if session == nil {
		return nil, errSignIn
	}
	account := s.account(session.key)
	if account == nil {
		return nil, errSignIn
	}
	return &identity{user: session.user, account: account, session: session}, nil
}

// acting returns the identity of a user that is no login of the database: the login of the user's role acts for the user. It
// returns signin.ErrNobody for a name without a visible character, and a noRoleError for a user without a role. The caller releases
// the account of the identity.
func (s *Site) acting(p signin.Person) (*identity, error) {
	if !utf8.ValidString(p.Name) || strings.IndexFunc(p.Name, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }) < 0 {
		return nil, signin.ErrNobody // records of the user's actions could not show such a name
	}
	role := s.options.Roles.Of(p)
	account := s.account(accountKey{role: role})
	if role == "" || account == nil {
		return nil, &noRoleError{name: p.Name}
	}
	return &identity{user: user{Name: p.Name, Role: role}, account: account}, nil
}

// noRoleError means that a user has signed in, but has no role.
type noRoleError struct{ name string }

func (e *noRoleError) Error() string { return "this name has no role here" }

// program returns the identity of a program, which sends a token, or a name and password, with each request. If a name and password
// were right a short time before, it does not check them again, because that is slow. It returns errTooMany if the address has
// failed too often. The caller releases the account of the identity.
func (s *Site) program(r *http.Request) (*identity, error) {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && s.options.Provider != nil {
		return s.bearer(r, token)
	}
	name, password, ok := r.BasicAuth()
	if !ok {
		return nil, errSignIn
	}
	proof := proofOf(name, password)
	// Refuse before looking at known names, so that a client that guesses passwords cannot find out which names are known.
	if s.limits.IsSpent("address " + s.clientOf(r)) {
		return nil, errTooMany
	}
	if s.options.Passwords != nil {
		if at, known := s.proofs.get(proof); known && time.Since(at) < accountIdleTime {
			return s.acting(signin.Person{Name: name})
		}
	} else if account := s.account(accountKey{name: name, proof: proof}); account != nil {
		return &identity{user: user{Name: name}, account: account}, nil
	}
	reads := s.reads.Load()
	found, err := s.prove(r, name, password)
	if err != nil {
		s.logSignIn(r, name, err)
	} else if s.options.Passwords != nil && reads == s.reads.Load() {
		s.proofs.put(proof, time.Now())
	}
	return found, err
}

// bearer returns the identity of a program by its token. It counts failed tokens against the address, since each may make the
// server fetch the provider's keys, and returns errTooMany without a check if there were too many.
func (s *Site) bearer(r *http.Request, token string) (*identity, error) {
	address := "address " + s.clientOf(r)
	if s.limits.IsSpent(address) {
		return nil, errTooMany
	}
	person, err := s.options.Provider.Verify(r.Context(), token)
	if err != nil {
		_, _ = s.limits.Allow(address)
		return nil, err
	}
	return s.acting(person)
}

// prove checks a name and a password, by the file of passwords if there is one, else by a connection to the database. It returns
// ErrWrongLogin if they are wrong, and counts that as an attempt of the name and of the client's address. It returns errTooMany
// without a check if one of these has no attempt left. The caller releases the account of the identity.
func (s *Site) prove(r *http.Request, name, password string) (*identity, error) {
	right, ok := s.limits.Allow("address "+s.clientOf(r), "name "+name)
	if !ok {
		return nil, errTooMany
	}
	found, err := s.proven(r, name, password)
	if !errors.Is(err, ErrWrongLogin) {
		right()
	}
	return found, err
}

// proven does the checks of prove, and counts no attempts.
func (s *Site) proven(r *http.Request, name, password string) (*identity, error) {
	switch {
	case name == "" || password == "":
		return nil, ErrWrongLogin // a database that trusts the address would accept an empty password
	case s.options.Passwords != nil:
		if !s.options.Passwords.Check(name, password) {
			return nil, ErrWrongLogin
		}
		return s.acting(signin.Person{Name: name})
	case s.options.Connect == nil:
		return nil, errSignIn
	}
	key := accountKey{name: name, proof: proofOf(name, password)}
	login, err := s.options.Connect(r.Context(), name, password)
	if err != nil {
		return nil, err
	}
	account := s.addAccount(key, login)
	if account == nil {
		login.Store.Close()
		return nil, errTooMany
	}
	return &identity{user: user{Name: name}, account: account}, nil
}

// proofOf returns a hash by which the server recognises a name and password without storing the password.
func proofOf(name, password string) [sha256.Size]byte {
	return sha256.Sum256([]byte(name + "\x00" + password))
}

// account returns the account of a key, and counts a use of it; nil if there is none. The caller releases the account.
func (s *Site) account(key accountKey) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[key]
	if a != nil {
		a.uses++
	}
	return a
}

// addAccount makes an account for key, and counts a use of it, which the caller releases. It returns nil if there are accountsMax
// accounts.
//
// It replaces an account with the same key, because the connections of that account may belong to a role that has been dropped
// since. The old account is retired: it stays open until its last request is over.
func (s *Site) addAccount(key accountKey, login Login) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.accounts[key]
	if before == nil && len(s.accounts) >= accountsMax {
		return nil
	}
	if before != nil {
		s.retired = append(s.retired, before)
	}
	pages := s.front.forLogin(login)
	a := &account{key: key, login: login, pages: pages.routes(), uses: 1, checked: time.Now()}
	pages.onRefused = func() { go s.recheck(a) }
	s.accounts[key] = a
	return a
}

// release ends a use that account or addAccount counted.
func (s *Site) release(a *account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.uses--
	a.idle = time.Now()
}

// sweep calls sweepOnce every sweepInterval until ctx ends, and then closes s.swept.
func (s *Site) sweep(ctx context.Context) {
	defer close(s.swept)
	for ctx.Err() == nil {
		wait(ctx, sweepInterval, nil)
		s.sweepOnce(time.Now())
	}
}

// sweepOnce ends expired sessions, retires accounts that were not used for accountIdleTime and have no session, and closes retired
// accounts without requests. Every recheckInterval it rechecks each other account. If the file of passwords has changed, it ends
// all sessions. It never touches the accounts of roles.
func (s *Site) sweepOnce(now time.Time) {
	if p := s.options.Passwords; p != nil {
		switch changed, err := p.Changed(); {
		case err != nil:
			s.front.log.Warn("the file of passwords cannot be read: the old ones stay in force", "error", err)
		case changed:
			s.reads.Add(1) // before sessions end: a sign-in that was checked against the old file sees that reads has changed
			s.sessions.endWhere(func(*session) bool { return true })
			s.proofs.clear()
			s.front.log.Info("passwords were read again: everybody signs in anew")
		}
	}
	s.sessions.endWhere(func(one *session) bool { return one.expired(now) })
	held := s.sessions.keys()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, a := range s.accounts {
		switch {
		case key.role != "":
		case a.uses == 0 && !held[key] && now.Sub(a.idle) > accountIdleTime:
			delete(s.accounts, key)
			s.retired = append(s.retired, a)
		case now.Sub(a.checked) > recheckInterval:
			a.checked = now
			go s.recheck(a)
		}
	}
	s.retired = slices.DeleteFunc(s.retired, func(a *account) bool {
		if a.uses > 0 {
			return false
		}
		go s.closeAccount(a) // in the background: closing waits for the last statements
		return true
	})
}

// recheck asks the database whether it still accepts the login of an account. If the database refuses it, recheck retires the
// account and ends its sessions, which cancels their requests. If the database does not answer, nothing changes.
func (s *Site) recheck(a *account) {
	if a.login.Check == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recheckTimeout)
	defer cancel()
	if !errors.Is(a.login.Check(ctx), ErrWrongLogin) {
		return
	}
	s.mu.Lock()
	if s.accounts[a.key] == a {
		delete(s.accounts, a.key)
		s.retired = append(s.retired, a)
	}
	s.mu.Unlock()
	s.sessions.endWhere(func(one *session) bool { return one.key == a.key })
	s.front.log.Info("the database takes a login no more: its sessions have ended", "name", a.key.name)
}
