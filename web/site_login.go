package web

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/web/signin"
)

const (
	attemptTime   = 10 * time.Minute // for a user to sign in at the provider
	maxLoginBytes = 16 << 10
	clientBits    = 64 // leading bits of an IPv6 address by which clients are told apart
)

// loginData is the content of the page on which users sign in.
type loginData struct {
	Name     string // name that the user typed
	To       string // path to go to afterwards, below the base
	Wrong    string // error of the last attempt
	Database bool   // names and passwords are logins of the database
	Provider bool   // users sign in at the provider's page
}

// loginPage shows the page on which users sign in. It redirects a user that has signed in already, and every user if a proxy signs
// users in.
func (s *Site) loginPage(w http.ResponseWriter, r *http.Request) error {
	to := safeBack(r.URL.Query().Get("to"))
	if s.sessions.find(s.cookie(r, sessionCookie)) != nil || s.options.Proxy != nil {
		s.front.redirect(w, r, to)
		return nil
	}
	return s.showLogin(w, r, http.StatusOK, loginData{To: to})
}

func (s *Site) showLogin(w http.ResponseWriter, r *http.Request, status int, d loginData) error {
	d.Database, d.Provider = s.options.Connect != nil, s.options.Provider != nil
	return s.front.renderStatus(w, r, status, "login.html", page{Title: "Sign in", Bare: true, Data: d})
}

// login checks the name and password of the form. If they are right, it opens a session and redirects. If not, it shows the form
// again with the reason. It answers with 404 if a provider or a proxy signs users in.
func (s *Site) login(w http.ResponseWriter, r *http.Request) error {
	if s.options.Connect == nil && s.options.Passwords == nil {
		return nothingHere(w, r)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBytes)
	if err := r.ParseForm(); err != nil {
		return &refusal{status: http.StatusBadRequest, message: "The form cannot be read.", hint: "Load the page of the form again."}
	}
	d := loginData{Name: r.PostForm.Get("name"), To: safeBack(r.PostForm.Get("to"))}
	reads := s.reads.Load()
	found, err := s.prove(r, d.Name, r.PostForm.Get("password"))
	s.logSignIn(r, d.Name, err)
	switch {
	case errors.Is(err, ErrWrongLogin):
		d.Wrong = "There is no such name with this password."
		return s.showLogin(w, r, http.StatusUnprocessableEntity, d)
	case errors.Is(err, errTooMany):
		w.Header().Set("Retry-After", "60")
		d.Wrong = "Too many attempts. Wait a minute."
		return s.showLogin(w, r, http.StatusTooManyRequests, d)
	case errors.Is(err, ErrTrusted):
		p := s.problem(r, err)
		d.Wrong = p.message + " " + p.hint
		return s.showLogin(w, r, p.status, d)
	case err != nil:
		return s.problem(r, err)
	}
	token := s.admit(w, r, found, d.To)
	if reads != s.reads.Load() {
		s.sessions.close(token) // the file may have another password by now
	}
	return nil
}

// admit opens a session for the user in found, and redirects to the path to. It returns the token of the session; "" if there are
// too many sessions, which it answers with an error. It ends the session that the browser had before and makes a new token, so that
// a token that an attacker planted in the browser is worthless. It releases the account of found.
func (s *Site) admit(w http.ResponseWriter, r *http.Request, found *identity, to string) (token string) {
	s.release(found.account)
	s.sessions.close(s.cookie(r, sessionCookie))
	lasts := sessionTime
	if s.options.Provider != nil {
		lasts = sessionIdleTime // the user's rights at the provider may change
	}
	token = s.sessions.open(found.user, found.account.key, lasts)
	if token == "" {
		s.front.answerError(w, r, signInProblem(errTooMany))
		return ""
	}
	s.setCookie(w, sessionCookie, token, lasts)
	s.front.redirect(w, r, to)
	return token
}

// logout ends the session of the browser, if there is one, and redirects to the page on which users sign in. The guard has refused
// a form of another site.
func (s *Site) logout(w http.ResponseWriter, r *http.Request) error {
	s.sessions.close(s.cookie(r, sessionCookie))
	s.setCookie(w, sessionCookie, "", 0)
	s.front.redirect(w, r, "/login")
	return nil
}

// pending is the content of a cookie during a sign-in at the provider.
type pending struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	To       string `json:"to"`
}

// begin redirects to the provider. It keeps the attempt in a cookie of the browser, where callback finds it.
func (s *Site) begin(w http.ResponseWriter, r *http.Request) error {
	if s.options.Provider == nil {
		return nothingHere(w, r)
	}
	to, attempt, err := s.options.Provider.Begin(r.Context())
	if err != nil {
		return s.problem(r, err)
	}
	kept, err := json.Marshal(pending{attempt.State, attempt.Nonce, attempt.Verifier, safeBack(r.URL.Query().Get("to"))})
	if err != nil {
		return err
	}
	s.setCookie(w, attemptCookie, base64.RawURLEncoding.EncodeToString(kept), attemptTime)
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// callback handles the redirect back from the provider: it opens a session and redirects to the page that the user wanted. It
// refuses a browser without the cookie of begin. A request with another state leaves that cookie alone.
func (s *Site) callback(w http.ResponseWriter, r *http.Request) error {
	if s.options.Provider == nil {
		return nothingHere(w, r)
	}
	var p pending
	kept, err := base64.RawURLEncoding.DecodeString(s.cookie(r, attemptCookie))
	if err == nil {
		err = json.Unmarshal(kept, &p)
	}
	if err != nil || p.State == "" {
		return &refusal{status: http.StatusBadRequest, message: "This browser has not begun to sign in here, or has begun too long ago.", hint: "Sign in again."}
	}
	// A request with another state does not belong to this attempt. The answer to this attempt may still come.
	if r.URL.Query().Get("state") == p.State {
		s.setCookie(w, attemptCookie, "", 0)
	}
	person, err := s.options.Provider.Finish(r.Context(), r.URL.Query(), signin.Attempt{State: p.State, Nonce: p.Nonce, Verifier: p.Verifier})
	var found *identity
	if err == nil {
		found, err = s.acting(person)
	}
	s.logSignIn(r, person.Name, err)
	if err != nil {
		return s.problem(r, err)
	}
	s.admit(w, r, found, safeBack(p.To))
	return nil
}

// logSignIn logs an attempt to sign in. The outcome is "signed in" if err is nil, "too many attempts" for errTooMany, else
// "refused".
func (s *Site) logSignIn(r *http.Request, name string, err error) {
	outcome := "signed in"
	switch {
	case errors.Is(err, errTooMany):
		outcome = "too many attempts"
	case err != nil:
		outcome = "refused"
	}
	s.front.log.InfoContext(r.Context(), "sign-in", "name", runview.InlineText(name), "client", s.clientOf(r), "outcome", outcome, "error", err)
}

// turnAway answers a request for which identify returned err. It redirects a GET for a page to the sign-in form if no user has
// signed in. All other requests get an error; a client of the API learns from the headers how to send a name or a token.
func (s *Site) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	page := r.Method == http.MethodGet && !s.front.isAPI(r) && !strings.HasPrefix(r.URL.Path, s.options.Base+"/live/")
	if page && errors.Is(err, errSignIn) {
		to, _ := withQuery("/login", "to", s.front.here(r))
		s.front.redirect(w, r, to)
		return
	}
	p := s.problem(r, err)
	if s.front.isAPI(r) && p.status == http.StatusUnauthorized {
		scheme := `Basic realm="Oarlock", charset="UTF-8"`
		if s.options.Provider != nil {
			scheme = `Bearer realm="Oarlock"`
		}
		w.Header().Set("WWW-Authenticate", scheme)
	}
	if p.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "60")
	}
	s.front.answerError(w, r, p)
}

// problem returns the refusal of a failed sign-in, as signInProblem does. It logs err if the status is 500 or more: an error of the
// provider or the database.
func (s *Site) problem(r *http.Request, err error) *refusal {
	p := signInProblem(err)
	if p.status >= http.StatusInternalServerError {
		s.front.log.WarnContext(r.Context(), "no user can sign in", "error", err)
	}
	return p
}

// signInProblem returns the refusal of a failed sign-in, for a page without navigation and with a link to the sign-in form.
func signInProblem(err error) *refusal {
	p := *refusalOf(err)
	p.bare, p.Back = true, crumb{Name: "Sign in", Path: "/login"}
	return &p
}

func refusalOf(err error) *refusal {
	named, _ := errors.AsType[*noRoleError](err)
	switch {
	case named != nil:
		return &refusal{
			status: http.StatusForbidden, message: "You are " + runview.InlineText(named.name) + ", and have no role here.",
			hint: "The operator of this server gives roles by the settings web_readers, web_submitters and web_operators.",
		}
	case errors.Is(err, errSignIn), errors.Is(err, ErrWrongLogin), errors.Is(err, signin.ErrToken):
		return &refusal{status: http.StatusUnauthorized, message: "You have not signed in, or the name with its password or token is not right.", hint: "Sign in, and send the request again."}
	case errors.Is(err, ErrTrusted):
		return &refusal{
			status: http.StatusServiceUnavailable, message: "The database asks for no password (trust), but to sign in by a login of the database needs a password.",
			hint: "Ask the operator of the database to let pg_hba.conf ask for scram-sha-256 from where this server connects.",
		}
	case errors.Is(err, errTooMany):
		return &refusal{status: http.StatusTooManyRequests, message: "Too many attempts to sign in.", hint: "Wait a minute."}
	case errors.Is(err, signin.ErrAway):
		return &refusal{status: http.StatusServiceUnavailable, message: "The provider that signs people in does not answer.", hint: "Try again; the log of this server says more."}
	case errors.Is(err, signin.ErrStranger):
		return &refusal{status: http.StatusForbidden, message: "This server answers its proxy only.", hint: "Open the address of the proxy."}
	case errors.Is(err, signin.ErrNobody):
		return &refusal{status: http.StatusForbidden, message: "The proxy does not name you.", hint: "The proxy has to send one header with the user, and at most one header with groups: see docs/web.md."}
	}
	return problemOf(err)
}

// clientOf returns the address of a request's client. That is the peer, unless the peer is one of the site's proxies: then it is
// the last address in X-Forwarded-For that is none of them. For IPv6 it returns the network of clientBits, since one client has a
// whole network to itself.
func (s *Site) clientOf(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	client := peer.Addr().Unmap()
	if err != nil {
		client = netip.Addr{}
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !s.trusts(client) {
			break
		}
		before, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		client = before.Unmap()
	}
	if !client.IsValid() {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return host
	}
	if network, err := client.Prefix(clientBits); client.Is6() && err == nil {
		return network.String()
	}
	return client.String()
}

func (s *Site) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(s.options.Proxies, func(p netip.Prefix) bool { return p.Contains(address) })
}
