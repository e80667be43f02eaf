package web

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// TestPages_StayBelowTheBase follows every link of every page, as a browser behind a proxy that serves /x/y does.
func TestPages_StayBelowTheBase(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{Base: "/x/y"})
	for range 60 {
		b.enqueue(t, queue.Request{})
	}
	b.ask(t, b.enqueue(t, queue.Request{}))
	seen, shapes := map[string]bool{}, map[string]int{}
	todo := []string{"/x/y/", "/x/y/nothing", "/x/y/runs?state=none"}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		kind := shapeOf(at)
		if seen[at] || shapes[kind] == 3 { // links that differ only in a run or a line are followed three times
			continue
		}
		seen[at] = true
		shapes[kind]++
		w := b.get(t, at, func(r *http.Request) {
			if strings.HasPrefix(at, "/x/y/live/") { // a stream would not end
				gone, leave := context.WithCancel(r.Context())
				leave()
				*r = *r.WithContext(gone)
			}
		})
		next := links(t, w.Body.String())
		if to := w.Header().Get("Location"); to != "" {
			next = append(next, to)
		}
		if w.Code >= http.StatusBadRequest && at != "/x/y/nothing" && !strings.Contains(at, "state=none") {
			t.Errorf("%s: %d", at, w.Code)
		}
		for _, link := range next {
			if strings.HasPrefix(link, "#") {
				continue
			}
			if !strings.HasPrefix(link, "/x/y/") {
				t.Errorf("%s leads to %s, which is not below the base", at, link)
				continue
			}
			todo = append(todo, link)
		}
	}
	for _, want := range []string{"/x/y/approvals", "/x/y/jump", "/x/y/runs/61", "/x/y/live/runs/61?step=confirm"} {
		if !seen[want] {
			t.Errorf("nothing leads to %s", want)
		}
	}
	for _, part := range []string{"before=", "view=events", "view=graph", "/steps/confirm"} {
		if !slices.ContainsFunc(slices.Sorted(maps.Keys(seen)), func(at string) bool { return strings.Contains(at, part) }) {
			t.Errorf("nothing leads to an address with %s", part)
		}
	}
	if w := b.get(t, "/"); w.Header().Get("Location") != "/x/y/runs" {
		t.Errorf("the root leads to %q", w.Header().Get("Location"))
	}
	if w := b.get(t, "/runs"); w.Code != http.StatusNotFound {
		t.Errorf("beside the base: %d", w.Code)
	}
}

var digits = regexp.MustCompile(`\d+`)

// shapeOf returns the kind of page that a link leads to: the path without numbers, and the names in the query.
func shapeOf(link string) string {
	path, query, _ := strings.Cut(link, "?")
	values, _ := url.ParseQuery(query)
	return digits.ReplaceAllString(path, "N") + "?" + strings.Join(slices.Sorted(maps.Keys(values)), "&")
}

func TestHandler_RefusesWrongBases(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"x", "/", "/x/", "/x//y", "/x/../y", "/x/{y}", "/x y", "//x"} {
		if _, err := Handler(nil, Options{Base: base}); err == nil {
			t.Errorf("%q was taken", base)
		}
	}
}

func TestGuard_SetsHeaders(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	want := map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'none'; " +
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
	}
	for _, path := range []string{"/runs", "/approvals", "/nothing", "/livez", "/readyz"} {
		h := b.get(t, path).Header()
		for name, value := range want {
			if h.Get(name) != value {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
		if h.Get("Permissions-Policy") == "" || h.Get(requestIDHeader) == "" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

func TestGuard_ServesLoopbackNamesOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{Hosts: []string{"Oarlock.example.org"}})
	for host, served := range map[string]bool{
		"localhost": true, "localhost:7070": true, "LOCALHOST.:7070": true, "127.0.0.1:1": true, "127.1.2.3": true, "[::1]:7070": true, "[::1]": true,
		"oarlock.example.org": true, "oarlock.example.org:443": true,
		"": false, "example.org": false, "localhost.example.org": false, "127.0.0.1.example.org:7070": false, "10.0.0.1:7070": false, "0.0.0.0:7070": false,
		"[::]:7070": false, "evil.oarlock.example.org": false, "127.0.0.1@example.org": false,
	} {
		w := b.get(t, "/runs", func(r *http.Request) { r.Host = host })
		if got := w.Code == http.StatusOK; got != served || !served && w.Code != http.StatusMisdirectedRequest {
			t.Errorf("%q: %d", host, w.Code)
		}
	}
	for _, path := range []string{"/livez", "/readyz"} { // health probes name the address of a pod
		if w := b.get(t, path, func(r *http.Request) { r.Host = "10.0.0.1:7070" }); w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestGuard_ServesKnownMethods(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodOptions, "TRACE"} {
		w := b.get(t, "/runs", func(r *http.Request) { r.Method = method })
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("%s: %d, %v", method, w.Code, w.Header())
		}
	}
	if w := b.get(t, "/runs", func(r *http.Request) { r.Method = http.MethodPost }); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST to a page without a form: %d", w.Code)
	}
	if w := b.get(t, "/runs", func(r *http.Request) { r.Method = http.MethodHead }); w.Code != http.StatusOK {
		t.Errorf("HEAD: %d", w.Code)
	}
}

func TestGuard_SurvivesPanics(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	h := b.server.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret of the page") }))
	w := request(t, h, "/runs")
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	wantTexts(t, w.Body.String(), w.Header().Get(requestIDHeader))
	if log := b.logged.String(); !strings.Contains(log, "secret of the page") || !strings.Contains(log, w.Header().Get(requestIDHeader)) {
		t.Errorf("the log says %q", log)
	}
}
