package browser

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web"
	"github.com/oarlock-dev/oarlock/web/signin"
)

// site serves the pages as `oarlock web` does, and counts streams. A second server, which browsers do not see, can stop
// it.
type site struct {
	handler http.Handler
	address string       // stays the same after a stop
	streams atomic.Int64 // open now
	stop    func() error // nil while it is stopped
}

// serve serves the pages until the test ends, and returns the site.
func serve(t *testing.T, handler http.Handler) *site {
	t.Helper()
	s := &site{handler: handler, address: "127.0.0.1:0"}
	if err := s.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.down(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// control returns the address of a server that does by request what scripts cannot: /up, /down, /streams, and the
// actions.
func (s *site) control(t *testing.T, actions map[string]func() error) string {
	t.Helper()
	actions["up"] = func() error { return s.up(context.WithoutCancel(t.Context())) }
	actions["down"] = s.down
	mux := http.NewServeMux()
	for name, act := range actions {
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) {
			if err := act(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	mux.HandleFunc("/streams", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.streams.Load()) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func (s *site) up(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	s.address = l.Addr().String()
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(running, l, s, nil, slog.New(slog.DiscardHandler)) }()
	s.stop = func() error {
		end()
		return <-ended
	}
	return nil
}

func (s *site) down() error {
	stop := s.stop
	if s.stop = nil; stop == nil {
		return nil
	}
	return stop()
}

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, basePath+"/live/") {
		s.streams.Add(1)
		defer s.streams.Add(-1)
	}
	s.handler.ServeHTTP(w, r)
}

const signedPath = basePath + "/signed"

// signedSite returns the same pages for a person that signs in and has the role of an operator.
func signedSite(t *testing.T, store *queue.Store, person, word string) http.Handler {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(word), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(file, []byte(person+":"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	passwords, err := signin.ReadPasswords(file)
	if err != nil {
		t.Fatal(err)
	}
	people, err := web.NewSite(web.SiteOptions{
		Options: web.Options{Base: signedPath, Name: "prod", Log: slog.New(slog.DiscardHandler)}, Passwords: passwords,
		Roles: signin.Roles{Operator: []string{person}}, Logins: map[signin.Role]web.Login{signin.Operator: {Store: store}},
		Ready: func(context.Context) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(people.Close)
	return people
}

// besides serves signed below its path, and pages everywhere else.
func besides(pages, signed http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, signedPath+"/") {
			signed.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}
