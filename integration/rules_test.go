package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/oarlock-dev/oarlock/integration/kit/golden"
	"github.com/oarlock-dev/oarlock/queue"
)

// TestRules plays testdata/rules. There is a file for each rule of docs/language.md that needs real processes, a real
// clock or a real database, so that a script of the core cannot show it. scenario_test.go explains the files. All
// scenarios share one worker, so the rules must also hold beside each other.
func TestRules(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/rules/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	h := house{testBundle: setup(t), server: serve(t), people: map[string]*queue.Store{}}
	for _, role := range []string{"oarlock_submit", "oarlock_admin"} {
		h.people[strings.TrimPrefix(role, "oarlock_")] = h.login(t, role)
	}
	h.shared(t)
	t.Run("file", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				h.play(t, file)
			})
		}
	})
}

// house is what all scenarios share.
type house struct {
	*testBundle
	server string                  // URL of an HTTP server
	people map[string]*queue.Store // stores by role
}

// login returns a store for a user that has one of Oarlock's roles and nothing else.
func (h *house) login(t *testing.T, role string) *queue.Store {
	t.Helper()
	url := h.db.Login(t, role)
	store, err := queue.Open(t.Context(), queue.Config{URL: url, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// shared starts the worker that all scenarios share, with an environment to inherit from.
func (h *house) shared(t *testing.T) {
	t.Helper()
	secret := filepath.Join(h.dir, "secret")
	if err := os.WriteFile(secret, []byte("correct horse battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.worker(t, "shared", "slots=64", "http_allow=127.0.0.0/8", "env=COLOUR=red,LAYER=worker,PATH="+os.Getenv("PATH"),
		"$COLOUR=inherited", "$LAYER=inherited", "$PLAIN=inherited", "$MY_PASSWORD=hidden", "$my_token=hidden", "$DATABASE_URL=hidden", "$PGHOST=hidden",
		"$AWS_REGION=hidden", "$SITE=https://user:word@example.org", "$VAULT=open sesame", "$SHORT=abc",
	)
	until(t, "the worker is live", func() bool { return h.live(t) == "shared" })
}

// play plays one scenario and compares its output.
func (h *house) play(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(filepath.Base(file), ".txtar")
	s := scenario{house: h, name: name, dir: filepath.Join(h.dir, name)}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.play(t, archive)
	archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
	archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(s.told())})
	golden.Equal(t, file, string(txtar.Format(archive)))
}

// serve starts a server on the loopback: /echo returns the request, /status/N answers N, and /later/KEY exists from the
// third request on.
func serve(t *testing.T) string {
	t.Helper()
	var mux http.ServeMux
	undated := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		mux.ServeHTTP(w, r)
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(map[string]string{
			"method": r.Method, "body": string(body), "x": r.Header.Get("X-Test"), "key": r.Header.Get("Idempotency-Key"),
		})
	})
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscan(r.PathValue("code"), &code)
		w.WriteHeader(code)
		fmt.Fprintf(w, "here is %d", code)
	})
	asked := make(chan map[string]int, 1)
	asked <- map[string]int{}
	mux.HandleFunc("/later/{key}", func(w http.ResponseWriter, r *http.Request) {
		counts := <-asked
		defer func() { asked <- counts }()
		if counts[r.PathValue("key")]++; counts[r.PathValue("key")] < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := httptest.NewServer(undated)
	t.Cleanup(server.Close)
	return server.URL
}
