package web

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/oarlock-dev/oarlock/integration/kit/openid"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/signin"
)

// siteBundle is a site, and a browser that keeps its cookies.
type siteBundle struct {
	*testBundle

	site    *Site
	cookies map[string]string
	headers http.Header // of each request, besides
}

// setupSite makes a site for a database with a run that the owner submitted.
func setupSite(t *testing.T, change func(*testBundle, *SiteOptions)) *siteBundle {
	t.Helper()
	b := &siteBundle{testBundle: setup(t, "", Options{}), cookies: map[string]string{}}
	o := SiteOptions{Options: Options{Log: slog.New(slog.NewTextHandler(b.logged, nil))}, Ready: func(context.Context) error { return nil }}
	change(b.testBundle, &o)
	site, err := NewSite(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(site.Close)
	b.site, b.handler = site, site
	return b
}

// connectTo opens stores as the command does, with the name and password of a login.
func connectTo(b *testBundle) func(context.Context, string, string) (Login, error) {
	return func(ctx context.Context, name, password string) (Login, error) {
		u, err := url.Parse(b.db.URL)
		if err != nil {
			return Login{}, err
		}
		u.User = url.UserPassword(name, password)
		store, err := queue.Open(ctx, queue.Config{URL: u.String(), OwnSchema: true})
		if err != nil {
			return Login{}, ErrWrongLogin
		}
		return Login{Store: store}, nil
	}
}

// send is a request of the browser.
func (b *siteBundle) send(t *testing.T, method, path string, pairs ...string) *httptest.ResponseRecorder {
	t.Helper()
	cookies := func(r *http.Request) {
		for name, value := range b.cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		maps.Copy(r.Header, b.headers)
	}
	var w *httptest.ResponseRecorder
	if method == http.MethodPost {
		w = post(t, withRequest(b.site, cookies), path, pairs...)
	} else {
		w = request(t, b.site, path, cookies)
	}
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return w
}

func withRequest(h http.Handler, change func(*http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { change(r); h.ServeHTTP(w, r) })
}

// wantAnswer requires a status and the target of a redirect, "" for none.
func wantAnswer(t *testing.T, w *httptest.ResponseRecorder, status int, to string) {
	t.Helper()
	if w.Code != status || w.Header().Get("Location") != to {
		t.Errorf("%d to %q, want %d to %q\n%s", w.Code, w.Header().Get("Location"), status, to, plainText(w.Body.String()))
	}
}

// loginOf is the name and password of a new login with a role.
func loginOf(t *testing.T, b *testBundle, role string) (name, password string) {
	t.Helper()
	u, err := url.Parse(b.db.Login(t, role))
	if err != nil {
		t.Fatal(err)
	}
	password, _ = u.User.Password()
	return u.User.Username(), password
}

func TestSite_SignsLoginsIn(t *testing.T) {
	t.Parallel()
	b := setupSite(t, func(b *testBundle, o *SiteOptions) { o.Connect = connectTo(b) })
	run := b.enqueue(t, queue.Request{})
	name, password := loginOf(t, b.testBundle, "oarlock_read")
	page := fmt.Sprint("/runs/", run)

	wantAnswer(t, b.send(t, "GET", page+"?view=graph"), http.StatusSeeOther, "/login?to="+url.QueryEscape(page+"?view=graph"))
	wantAnswer(t, b.send(t, "GET", "/live"+page), http.StatusUnauthorized, "")
	wantAnswer(t, b.send(t, "POST", page+"/cancel"), http.StatusUnauthorized, "")
	wantAnswer(t, b.send(t, "GET", "/livez"), http.StatusOK, "")
	w := b.send(t, "GET", "/login?to="+url.QueryEscape(page))
	wantTexts(t, w.Body.String(), "Sign in", "your login of the database")
	if strings.Contains(w.Body.String(), "/queues") {
		t.Error("whoever has not signed in sees the navigation")
	}
	b.cookies["oarlock_session"] = "chosen-by-somebody-else"
	w = b.send(t, "POST", "/login", "name", name, "password", "wrong", "to", page)
	wantAnswer(t, w, http.StatusUnprocessableEntity, "")
	if strings.Contains(w.Body.String(), "value=\"wrong\"") {
		t.Error("the form shows the password")
	}
	wantAnswer(t, b.send(t, "POST", "/login", "name", name, "password", password, "to", page), http.StatusSeeOther, page)
	if b.cookies["oarlock_session"] == "chosen-by-somebody-else" {
		t.Error("the session is the one that the browser had before")
	}
	w = b.send(t, "GET", page)
	wantTexts(t, w.Body.String(), "report", name, "Sign out")
	wantAnswer(t, b.send(t, "GET", "/login?to=/queues"), http.StatusSeeOther, "/queues")
	stolen := b.cookies["oarlock_session"]
	wantAnswer(t, b.send(t, "POST", "/logout"), http.StatusSeeOther, "/login")
	b.cookies["oarlock_session"] = stolen
	wantAnswer(t, b.send(t, "GET", page), http.StatusSeeOther, "/login?to="+url.QueryEscape(page))
	if log := b.logged.String(); strings.Contains(log, password) || !strings.Contains(log, "outcome=refused") || !strings.Contains(log, "outcome=\"signed in\"") {
		t.Errorf("the log: %s", log)
	}
}

// Where the database asks for no password, the sign-in page has to say so.
func TestSite_SaysThatTheServerTrusts(t *testing.T) {
	t.Parallel()
	b := setupSite(t, func(_ *testBundle, o *SiteOptions) {
		o.Connect = func(context.Context, string, string) (Login, error) {
			return Login{}, fmt.Errorf("connect: %w", ErrTrusted)
		}
	})
	w := b.send(t, http.MethodPost, "/login", "name", "ana", "password", "x")
	if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || !strings.Contains(body, "asks for no password (trust)") || !strings.Contains(body, `name="password"`) {
		t.Errorf("%d: %s", w.Code, body)
	}
	if said := b.logged.String(); !strings.Contains(said, "see pg_hba.conf") {
		t.Error(said)
	}
}

func TestSite_ShowsWhatTheLoginMay(t *testing.T) {
	t.Parallel()
	b := setupSite(t, func(b *testBundle, o *SiteOptions) { o.Connect = connectTo(b) })
	run := b.enqueue(t, queue.Request{})
	for role, want := range map[string]struct {
		page, cancel int
		offered      bool
	}{
		"oarlock_read":   {http.StatusOK, http.StatusForbidden, false},
		"oarlock_submit": {http.StatusNotFound, http.StatusNotFound, false},
		"oarlock_admin":  {http.StatusOK, http.StatusSeeOther, true},
	} {
		name, password := loginOf(t, b.testBundle, role)
		b.cookies = map[string]string{}
		wantAnswer(t, b.send(t, "POST", "/login", "name", name, "password", password), http.StatusSeeOther, "/runs")
		w := b.send(t, "GET", fmt.Sprint("/runs/", run))
		if offered := strings.Contains(w.Body.String(), fmt.Sprint(run, "/cancel")); w.Code != want.page || offered != want.offered {
			t.Errorf("%s: the page is answered with %d, want %d; it offers to cancel: %t", role, w.Code, want.page, offered)
		}
		if w := b.send(t, "POST", fmt.Sprint("/runs/", run)+"/cancel"); w.Code != want.cancel {
			t.Errorf("%s: to cancel is answered with %d, want %d\n%s", role, w.Code, want.cancel, plainText(w.Body.String()))
		}
	}
}

func TestSite_LimitsAttempts(t *testing.T) {
	t.Parallel()
	b := setupSite(t, func(_ *testBundle, o *SiteOptions) { o.Passwords = passwordsOf(t, "ana", "right") })
	for range 5 {
		wantAnswer(t, b.send(t, "POST", "/login", "name", "ana", "password", "wrong"), http.StatusUnprocessableEntity, "")
	}
	w := b.send(t, "POST", "/login", "name", "ana", "password", "right")
	wantAnswer(t, w, http.StatusTooManyRequests, "")
	if w.Header().Get("Retry-After") == "" {
		t.Error("it does not say when to try again")
	}
}

func passwordsOf(t *testing.T, name, password string) *signin.Passwords {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(file, []byte(name+":"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := signin.ReadPasswords(file)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSite_MapsPeopleToLogins(t *testing.T) {
	t.Parallel()
	proxy := &signin.Proxy{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, UserHeader: "X-Forwarded-User", GroupsHeader: "X-Forwarded-Groups"}
	b := setupSite(t, func(b *testBundle, o *SiteOptions) {
		o.Proxy, o.Roles = proxy, signin.Roles{Reader: []string{"*"}, Operator: []string{"group:ops"}}
		o.Logins = map[signin.Role]Login{
			signin.Reader: {Store: openStore(t, b.db.Login(t, "oarlock_read"))}, signin.Operator: {Store: openStore(t, b.db.Login(t, "oarlock_admin"))},
		}
	})
	run := b.enqueue(t, queue.Request{})
	from := func(peer string, headers ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.RemoteAddr = peer
			for i := 0; i+1 < len(headers); i += 2 {
				r.Header.Add(headers[i], headers[i+1])
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(*http.Request)
		status  int
		offered bool
	}{
		"stranger":  {from("198.51.100.1:99", "X-Forwarded-User", "ana", "X-Forwarded-Groups", "ops"), http.StatusForbidden, false},
		"nobody":    {from("192.0.2.1:99"), http.StatusForbidden, false},
		"two users": {from("192.0.2.1:99", "X-Forwarded-User", "ana", "X-Forwarded-User", "eve"), http.StatusForbidden, false},
		"reader":    {from("192.0.2.1:99", "X-Forwarded-User", "ana", "X-Forwarded-Groups", "dev, notops"), http.StatusOK, false},
		"operator":  {from("192.0.2.1:99", "X-Forwarded-User", "ana", "X-Forwarded-Groups", "dev, ops"), http.StatusOK, true},
	} {
		w := request(t, b.site, fmt.Sprint("/runs/", run), c.change)
		if offered := strings.Contains(w.Body.String(), fmt.Sprint(run, "/cancel")); w.Code != c.status || offered != c.offered {
			t.Errorf("%s: %d, want %d; it offers to cancel: %t", name, w.Code, c.status, offered)
		}
	}
}

func TestSite_SignsInAtAProvider(t *testing.T) {
	t.Parallel()
	provider := openid.New(t)
	b := setupSite(t, func(b *testBundle, o *SiteOptions) {
		o.Provider = signin.NewProvider(signin.ProviderConfig{
			Issuer: provider.URL, ClientID: openid.ClientID, ClientSecret: openid.ClientSecret, Callback: "http://localhost:7070/login/callback",
			NameClaim: "email", GroupsClaim: "groups",
		})
		t.Cleanup(o.Provider.Close)
		o.Roles = signin.Roles{Reader: []string{"group:dev"}}
		o.Logins = map[signin.Role]Login{signin.Reader: {Store: openStore(t, b.db.Login(t, "oarlock_read"))}}
	})
	wantAnswer(t, b.send(t, "GET", "/login/callback?code=the-code&state=x"), http.StatusBadRequest, "") // this browser has not begun a sign-in
	wantTexts(t, b.send(t, "GET", "/login?to=/queues").Body.String(), "Sign in with your account")
	begin := func(to string) url.Values {
		w := b.send(t, "GET", "/login/begin?to="+url.QueryEscape(to))
		u, err := url.Parse(w.Header().Get("Location"))
		if err != nil || w.Code != http.StatusSeeOther || !strings.HasPrefix(u.String(), provider.URL) {
			t.Fatalf("%d to %s, %v", w.Code, u, err)
		}
		provider.Visit(u.Query())
		return u.Query()
	}
	back := func(q url.Values) string {
		return "/login/callback?" + url.Values{"code": {openid.Code}, "state": {q.Get("state")}}.Encode()
	}
	wantAnswer(t, b.send(t, "GET", back(begin("https://evil.example/"))), http.StatusSeeOther, "/runs")
	wantTexts(t, b.send(t, "GET", "/runs").Body.String(), "ana@example.org, reader")
	b.send(t, "POST", "/logout")
	other := begin("/queues")
	latest := begin("/queues")
	wantAnswer(t, b.send(t, "GET", back(other)), http.StatusUnauthorized, "") // from another browser's attempt
	wantAnswer(t, b.send(t, "GET", back(latest)), http.StatusSeeOther, "/queues")
	b.send(t, "POST", "/logout")
	provider.Claims = map[string]any{"groups": []string{"sales"}}
	w := b.send(t, "GET", back(begin("/queues")))
	wantAnswer(t, w, http.StatusForbidden, "")
	wantTexts(t, w.Body.String(), "You are ana@example.org, and have no role here.")
	if w := request(t, b.site, "/api/v1/nothing", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+provider.IDToken()) }); w.Code != http.StatusForbidden {
		t.Errorf("a program without a role: %d", w.Code)
	}
	provider.Claims = nil
	for i := range 6 {
		w := request(t, b.site, "/api/v1/nothing", func(r *http.Request) { r.RemoteAddr = "192.0.2.9:1"; r.Header.Set("Authorization", "Bearer x") })
		if want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusTooManyRequests}[i < 5]; w.Code != want {
			t.Errorf("wrong token %d: %d, want %d", i+1, w.Code, want)
		}
	}
	if w := request(t, b.site, "/api/v1/nothing", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+provider.IDToken()) }); w.Code != http.StatusNotFound {
		t.Errorf("a program: %d", w.Code)
	}
}

func TestSite_GivesProgramsTheirLogin(t *testing.T) {
	t.Parallel()
	b := setupSite(t, func(b *testBundle, o *SiteOptions) { o.Connect = connectTo(b) })
	name, password := loginOf(t, b.testBundle, "oarlock_read")
	basic := func(name, password string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(name+":"+password)))
		}
	}
	for range 20 { // more than the limit of attempts a minute: a program sends its password with each request
		if w := request(t, b.site, "/api/v1/nothing", basic(name, password)); w.Code != http.StatusNotFound {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
	}
	w := request(t, b.site, "/api/v1/runs", basic(name, "wrong"))
	if w.Code != http.StatusUnauthorized || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("%d %q", w.Code, w.Header().Get("WWW-Authenticate"))
	}
	if w := request(t, b.site, "/runs", basic(name, password)); w.Code != http.StatusSeeOther {
		t.Errorf("a page takes Basic, which a browser sends with every form of another site: %d", w.Code)
	}
}

func TestSite_EndsWhatIsOver(t *testing.T) {
	t.Parallel()
	b := setupSite(t, func(b *testBundle, o *SiteOptions) { o.Connect = connectTo(b) })
	run := b.enqueue(t, queue.Request{})
	name, password := loginOf(t, b.testBundle, "oarlock_read")
	b.send(t, "POST", "/login", "name", name, "password", password)
	token := b.cookies["oarlock_session"]

	server := httptest.NewServer(withRequest(b.site, func(r *http.Request) { r.Host = "localhost" }))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+fmt.Sprint("/live/runs/", run), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "oarlock_session", Value: token})
	stream, err := server.Client().Do(r) //nolint:bodyclose // closed below
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatal(stream, err)
	}
	defer stream.Body.Close()
	read := make([]byte, 10)
	if _, err := stream.Body.Read(read); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for err == nil {
			_, err = stream.Body.Read(read)
		}
	}()
	b.site.sweepOnce(time.Now().Add(sessionIdleTime + time.Minute))
	<-ended
	wantAnswer(t, b.send(t, "GET", "/runs"), http.StatusSeeOther, "/login?to=%2Fruns")
	server.Close() // its requests are over, so the account is unused
	b.site.sweepOnce(time.Now().Add(2 * accountIdleTime))
	b.site.mu.Lock()
	defer b.site.mu.Unlock()
	if len(b.site.accounts) != 0 {
		t.Errorf("%d accounts are open", len(b.site.accounts))
	}
}

func TestSite_KnowsTheClient(t *testing.T) {
	t.Parallel()
	s := &Site{options: SiteOptions{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for name, c := range map[string]struct {
		peer, want string
		forwarded  []string
	}{
		"direct":            {"192.0.2.7:1", "192.0.2.7", nil},
		"a stranger's word": {"192.0.2.7:1", "192.0.2.7", []string{"198.51.100.1"}},
		"a proxy's word":    {"10.0.0.1:1", "198.51.100.1", []string{"198.51.100.1"}},
		"what it was told":  {"10.0.0.1:1", "198.51.100.1", []string{"1.1.1.1", "198.51.100.1, 10.0.0.2"}},
		"IPv6":              {"[2001:db8:1:2:3::4]:1", "2001:db8:1:2::/64", nil},
		"nonsense":          {"10.0.0.1:1", "10.0.0.1", []string{"eve"}},
		"mapped":            {"[::ffff:10.0.0.1]:1", "198.51.100.1", []string{"::ffff:198.51.100.1"}},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", http.NoBody)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = c.peer, c.forwarded
		if got := s.clientOf(r); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestSite_EndsWithTheLogin(t *testing.T) {
	t.Parallel()
	b := setupSite(t, func(b *testBundle, o *SiteOptions) {
		connect := connectTo(b)
		o.Connect = func(ctx context.Context, name, password string) (Login, error) {
			login, err := connect(ctx, name, password)
			login.Check = func(ctx context.Context) error {
				other, err := connect(ctx, name, password)
				if err == nil {
					other.Store.Close()
				}
				return err
			}
			return login, err
		}
	})
	name, password := loginOf(t, b.testBundle, "oarlock_read")
	b.send(t, "POST", "/login", "name", name, "password", password)
	account := b.site.accounts[accountKey{name: name, proof: proofOf(name, password)}]
	b.site.recheck(account)
	wantAnswer(t, b.send(t, "GET", "/runs"), http.StatusOK, "")
	b.exec(t, fmt.Sprintf("ALTER ROLE %q PASSWORD 'another'", name))
	b.site.recheck(account)
	wantAnswer(t, b.send(t, "GET", "/runs"), http.StatusSeeOther, "/login?to=%2Fruns")
	wantAnswer(t, b.send(t, "POST", "/login", "name", name, "password", password), http.StatusUnprocessableEntity, "")

	wantAnswer(t, b.send(t, "POST", "/login", "name", name, "password", "another"), http.StatusSeeOther, "/runs")
	b.exec(t, fmt.Sprintf("ALTER ROLE %q NOLOGIN", name))
	b.exec(t, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = $1", name)
	w := b.send(t, "GET", "/dags") // opens a new connection, which the database refuses
	wantAnswer(t, w, http.StatusUnauthorized, "")
	wantTexts(t, w.Body.String(), "Sign in")
}

// A client that is over its limit learns nothing, not even by the right password of a signed-in user.
func TestSite_TellsNothingToWhoGuesses(t *testing.T) {
	t.Parallel()
	b := setupSite(t, func(b *testBundle, o *SiteOptions) { o.Connect = connectTo(b) })
	name, password := loginOf(t, b.testBundle, "oarlock_read")
	ask := func(from, password string) int {
		return request(t, b.site, "/api/v1/runs", func(r *http.Request) {
			r.RemoteAddr = from
			r.SetBasicAuth(name, password)
		}).Code
	}
	for i := range 10 { // right passwords do not count against the limit
		if got := ask("192.0.2.1:1", password); got != http.StatusOK {
			t.Fatalf("request %d: %d", i, got)
		}
	}
	for i := range 8 {
		want := http.StatusUnauthorized
		if i >= 5 {
			want = http.StatusTooManyRequests
		}
		if got := ask("192.0.2.2:1", "wrong"); got != want {
			t.Errorf("guess %d: %d, want %d", i, got, want)
		}
	}
	if got := ask("192.0.2.2:1", password); got != http.StatusTooManyRequests {
		t.Errorf("the right one after too many: %d", got)
	}
	if got := ask("192.0.2.1:1", password); got != http.StatusOK {
		t.Errorf("a program elsewhere is shut out: %d", got)
	}
}

func TestSessions_MakeRoomForOthers(t *testing.T) {
	t.Parallel()
	s := newSessions()
	first := s.open(user{Name: "eve"}, accountKey{}, sessionTime)
	for range sessionsOfOne {
		s.open(user{Name: "eve"}, accountKey{}, sessionTime)
	}
	if s.find(first) != nil || len(s.all) != sessionsOfOne {
		t.Errorf("one person has %d sessions", len(s.all))
	}
	if s.find(s.open(user{Name: "ana"}, accountKey{}, -time.Second)) != nil {
		t.Error("a session lasts for longer than it may")
	}
}

func TestSite_AsksOnceWhetherItIsReady(t *testing.T) {
	t.Parallel()
	asked := 0
	b := setupSite(t, func(b *testBundle, o *SiteOptions) {
		o.Connect = connectTo(b)
		o.Ready = func(context.Context) error { asked++; return nil }
	})
	for range 20 {
		wantAnswer(t, b.send(t, "GET", "/readyz"), http.StatusOK, "")
	}
	if asked > 10 { // once a second
		t.Errorf("the database was asked %d times", asked)
	}
}

func TestSite_RefusesNamesThatRecordsCannotShow(t *testing.T) {
	t.Parallel()
	b := setupSite(t, func(b *testBundle, o *SiteOptions) {
		o.Proxy = &signin.Proxy{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, UserHeader: "X-Forwarded-User"}
		o.Roles, o.Logins = signin.Roles{Reader: []string{"*"}}, map[signin.Role]Login{signin.Reader: {Store: openStore(t, b.db.Login(t, "oarlock_read"))}}
	})
	for name, want := range map[string]int{"ana": http.StatusOK, "Ána Ø": http.StatusOK, "\xff": http.StatusForbidden, "\u200b": http.StatusForbidden, "\u200e ": http.StatusForbidden} {
		if w := request(t, b.site, "/runs", func(r *http.Request) { r.Header.Set("X-Forwarded-User", name) }); w.Code != want {
			t.Errorf("%q: %d, want %d", name, w.Code, want)
		}
	}
}
