package web

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/runview"
)

// contentPolicy lets a page load files of this server, and nothing else. Inline scripts and styles are forbidden.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"font-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const requestIDHeader = "X-Request-ID"

// guard wraps all pages. It sets the headers of every answer, and turns a panic into an error page. It refuses methods other than
// GET, HEAD and POST, and forms that a page of another site sent. It also refuses requests for a foreign host, except those of
// health probes, which name the server by its address.
func (s *server) guard(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		if s.secure {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		defer s.recover(w, r)
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
			w.Header().Set("Allow", "GET, HEAD, POST")
			s.answerError(w, r, &refusal{
				status: http.StatusMethodNotAllowed, message: runview.InlineText(r.Method) + " is not served.", hint: "Load a page, or send a form of a page.",
			})
		case !s.serves(r.Host) && !isProbe(r.URL.Path, s.options.Base): // health probes name the server by its address
			_ = sayLine(w, http.StatusMisdirectedRequest, fmt.Sprintf(
				"This server does not answer for the host %q. Open the server as %s.", runview.InlineText(r.Host), s.knownAs()))
		case crossOrigin.Check(r) != nil:
			s.answerError(w, r, &refusal{
				status: http.StatusForbidden, message: "A page of another site sent this form, so nothing was done.", hint: "Open the page of the form on this server, and send the form again.",
			})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
	h.Set(requestIDHeader, rand.Text()[:10])
}

// isProbe reports whether a path belongs to a health probe.
func isProbe(path, base string) bool { return path == base+"/livez" || path == base+"/readyz" }

// serves reports whether the server answers requests for a Host header. It does not answer for a foreign name that resolves to
// this machine: pages of that name could read ours, because a browser takes both for one origin.
func (s *server) serves(hostport string) bool {
	host := hostport
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
	return IsLoopback(host) || slices.ContainsFunc(s.options.Hosts, func(known string) bool { return strings.EqualFold(known, host) })
}

// knownAs returns the host names of this server, for a message.
func (s *server) knownAs() string {
	if len(s.options.Hosts) > 0 {
		return strings.Join(s.options.Hosts, " or ")
	}
	return "localhost or 127.0.0.1 with its port"
}

// IsLoopback reports whether host, without a port, is a name or address by which only this machine reaches itself.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// recover must be deferred by the caller of a handler. If the handler panicked, it answers with an error page. It panics again with
// http.ErrAbortHandler, by which a handler breaks off its answer.
func (s *server) recover(w http.ResponseWriter, r *http.Request) {
	p := recover()
	switch p {
	case nil:
		return
	case http.ErrAbortHandler:
		panic(p)
	}
	s.answerError(w, r, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
}
