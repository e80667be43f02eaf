package health_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// well returns the status of a healthy worker.
func well() worker.Status {
	return worker.Status{
		Phase: worker.Live, Since: time.Now(), Worker: uuid.Max, TTL: 30 * time.Second, RenewEvery: 5 * time.Second,
		Ticked: time.Now(), Soft: boottime.Now() + 18*time.Second, Hard: boottime.Now() + 21*time.Second,
		Runs: 2, Slots: worker.SlotStats{Slots: 8, Free: 5},
	}
}

func TestVerdicts_SayWhatIsWrong(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for name, tt := range map[string]struct {
		change       func(*worker.Status)
		alive, ready string // "" for yes
	}{
		"well":       {func(*worker.Status) {}, "", ""},
		"starting":   {func(s *worker.Status) { s.Phase, s.Ticked = worker.Starting, time.Time{} }, "", "not registered"},
		"waiting":    {func(s *worker.Status) { s.Phase, s.Awaits = worker.Starting, "waiting for connections" }, "", "waiting for connections"},
		"draining":   {func(s *worker.Status) { s.Phase = worker.Draining }, "", "the worker is draining"},
		"ending":     {func(s *worker.Status) { s.Phase, s.Ticked = worker.Ending, ago(time.Hour) }, "", "the worker is ending"},
		"stopped":    {func(s *worker.Status) { s.Phase = worker.Stopped }, "the worker has stopped", "the worker has stopped"},
		"late":       {func(s *worker.Status) { s.Ticked = ago(19 * time.Second) }, "", ""},
		"not kept":   {func(s *worker.Status) { s.Ticked = ago(21 * time.Second) }, "the worker has not checked its lease for 21s", "the worker has not checked its lease for 21s"},
		"no end":     {func(s *worker.Status) { s.Phase, s.Since = worker.Ending, ago(2*time.Minute) }, "the worker is ending its tasks, but these have not ended for 2m0s", "the worker is ending its tasks, but these have not ended for 2m0s"},
		"slow flush": {func(s *worker.Status) { s.Session.Trying = 11 * time.Second }, "", ""},
		"stuck":      {func(s *worker.Status) { s.Session.Trying = 31 * time.Second }, "the journal has been stuck for 31s", "the journal has been stuck for 31s"},
		"cut off":    {func(s *worker.Status) { s.RenewErr = errors.New("password=x refused") }, "", "the database did not answer the last sign of life"},
		"refused":    {func(s *worker.Status) { s.RenewErr, s.Refusal = io.EOF, "read-only (25006)" }, "", "the database refused the last sign of life: read-only (25006)"},
		"run out":    {func(s *worker.Status) { s.Soft = boottime.Now() }, "", "the lease has run out"},
	} {
		s := well()
		tt.change(&s)
		if got := text(health.Alive(s)); got != tt.alive {
			t.Errorf("%s: alive: %q, want %q", name, got, tt.alive)
		}
		if got := text(health.Ready(s)); got != tt.ready {
			t.Errorf("%s: ready: %q, want %q", name, got, tt.ready)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// serve runs a server on a port of its own.
func serve(t *testing.T, c health.Config) *health.Server {
	t.Helper()
	c.Addr = ":0"
	s, err := health.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask makes one request on a connection of its own.
func ask(t *testing.T, s *health.Server, method, path, accept string) (code int, header http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	r.Close = true
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(text)
}

func TestServer_AnswersInOneLineOrAsAnObject(t *testing.T) {
	t.Parallel()
	var cutOff atomic.Bool
	s := serve(t, health.Config{Status: func() worker.Status {
		now := well()
		if cutOff.Load() {
			now.RenewErr = io.EOF
		}
		return now
	}})
	if code, header, body := ask(t, s, "GET", "/readyz", "*/*"); code != 200 || body != "ok\n" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %q %v", code, body, header)
	}
	cutOff.Store(true)
	if code, _, body := ask(t, s, "GET", "/readyz", ""); code != 503 || body != "the database did not answer the last sign of life\n" {
		t.Errorf("%d %q", code, body)
	}
	if code, _, body := ask(t, s, "GET", "/livez", ""); code != 200 || body != "ok\n" {
		t.Errorf("%d %q", code, body)
	}
	code, header, body := ask(t, s, "GET", "/readyz", "text/html, application/json;q=0.9")
	var a health.Answer
	if err := json.Unmarshal([]byte(body), &a); err != nil || code != 503 || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %q: %v", code, body, err)
	}
	if a.OK || a.Why == "" || a.Phase != "live" || a.Worker != uuid.Max.String() || a.LeaseMargin < 17 || a.LeaseMargin > 18 || a.Runs != 2 || a.Slots != 8 || a.Busy != 3 {
		t.Errorf("%+v", a)
	}
	if code, _, _ := ask(t, s, "POST", "/livez", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
	if code, _, _ := ask(t, s, "GET", "/metrics", ""); code != http.StatusNotFound {
		t.Errorf("metrics without any: %d", code)
	}
}

func TestServer_ShowsMetrics(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	s := serve(t, health.Config{Status: well, Metrics: page})
	if code, _, body := ask(t, s, "GET", "/metrics", ""); code != 200 || body != "up 1\n" {
		t.Errorf("%d %q", code, body)
	}
}

func TestServer_ListensOnTheLoopbackInterfaceUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	s := serve(t, health.Config{Status: well})
	if host, _, err := net.SplitHostPort(s.Addr()); err != nil || host != "127.0.0.1" {
		t.Errorf("listens on %s", s.Addr())
	}
	if !strings.HasPrefix(health.DefaultAddr, "127.0.0.1:") {
		t.Errorf("listens on %s", health.DefaultAddr)
	}
	for _, addr := range []string{s.Addr(), "nowhere", "127.0.0.1:x"} {
		if _, err := health.New(health.Config{Addr: addr, Status: well}); err == nil {
			t.Errorf("listens on %s", addr)
		}
	}
	if _, err := health.New(health.Config{}); err == nil {
		t.Error("answers for nobody")
	}
}

func TestClose_WaitsForAnswersAndForNobodyElse(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	s, err := health.New(health.Config{Addr: "127.0.0.1:0", Status: well, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = io.WriteString(w, "late\n")
	})})
	if err != nil {
		t.Fatal(err)
	}
	idle, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	got := make(chan string, 1)
	go func() {
		_, _, body := ask(t, s, "GET", "/metrics", "")
		got <- body
	}()
	<-asked
	closed := make(chan error, 1)
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	go func() { closed <- s.Close(ctx) }()
	close(answer)
	if body := <-got; body != "late\n" {
		t.Errorf("got %q", body)
	}
	giveUp() // the idle connection has not said anything
	<-closed
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		conn.Close()
		t.Error("still listens")
	}
}

func TestReady_TurnsWhenRenewalsFail(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	w, stopped := store.run(t)
	s := serve(t, health.Config{Status: w.Status})
	becomes := func(code int, line string) {
		t.Helper()
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(30 * time.Second); ; <-tick.C {
			got, _, body := ask(t, s, "GET", "/readyz", "")
			if got == code && body == line {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("it answers %d %q, want %d %q", got, body, code, line)
			}
		}
	}
	becomes(200, "ok\n")
	store.Break(errors.New("away"))
	becomes(503, "the database did not answer the last sign of life\n")
	if code, _, body := ask(t, s, "GET", "/livez", ""); code != 200 {
		t.Errorf("a database that is away is no reason to restart: %d %q", code, body)
	}
	store.Break(nil)
	becomes(200, "ok\n")
	if err := store.drain(t); err != nil {
		t.Fatal(err)
	}
	becomes(503, "the worker is draining\n")
	w.StopNow()
	<-stopped
	becomes(503, "the worker has stopped\n")
}
