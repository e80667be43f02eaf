package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// firstLine takes what a command says, and passes its first line on.
type firstLine struct {
	mu   sync.Mutex
	text strings.Builder
	line chan string
}

func newFirstLine() *firstLine { return &firstLine{line: make(chan string, 1)} }

func (f *firstLine) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := strings.Contains(f.text.String(), "\n")
	f.text.Write(b)
	if line, _, ended := strings.Cut(f.text.String(), "\n"); ended && !before {
		f.line <- line
	}
	return len(b), nil
}

func (f *firstLine) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

func TestWeb_ServesUntilASignalEndsIt(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	url := passing(t, pgtest.New(t).URL)
	for name, cause := range map[string]error{"interrupt": &signalError{interrupt: true}, "terminate": &signalError{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			said := newFirstLine()
			e := testEnv()
			e.Stdout, e.Stderr = io.Discard, said
			e.Lookup = func(name string) (string, bool) {
				return map[string]string{"DATABASE_URL": url}[name], name == "DATABASE_URL"
			}
			ended := make(chan int, 1)
			go func() { ended <- run(ctx, e, []string{"web", "--listen", ":0", "--base", "/x/y"}) }()
			var line string
			select {
			case line = <-said.line:
			case code := <-ended:
				t.Fatalf("it ended with %d: %s", code, said)
			}
			address := regexp.MustCompile(`^page      (http://127\.0\.0\.1:\d+/x/y/)$`).FindStringSubmatch(line)
			if address == nil {
				t.Fatalf("it says %q", line)
			}
			for path, shown := range map[string]string{"": "There are no runs yet.", "doctor": "server_version"} {
				answer, err := http.Get(address[1] + path)
				if err != nil {
					t.Fatal(err)
				}
				page, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(page), shown) {
					t.Errorf("%d, %v\n%s", answer.StatusCode, err, page)
				}
				if strings.Contains(string(page)+said.String(), leaked) {
					t.Error("it shows the password")
				}
			}
			cancel(cause)
			if code := <-ended; code != int(exitOK) {
				t.Errorf("it ended with %d: %s", code, said)
			}
			if conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(address[1], "http://"), "/x/y/")); err == nil {
				conn.Close()
				t.Error("it still listens")
			}
		})
	}
}

func TestWeb_ListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"127.0.0.1:7070": "127.0.0.1:7070", ":7070": "127.0.0.1:7070", "localhost:0": "localhost:0", "[::1]:80": "[::1]:80", "127.9.9.9:1": "127.9.9.9:1",
		"0.0.0.0:7070": "", "[::]:7070": "", "10.0.0.1:7070": "", "example.org:7070": "", "7070": "", "127.0.0.1": "", "127.0.0.1:no such port": "", "": "",
	} {
		got, err := loopbackAddress(given)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", given, got, err, want)
		}
	}
}

func TestListenNear_TakesAnotherPort(t *testing.T) {
	t.Parallel()
	first, err := listenNear("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := listenNear(first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if host, _, _ := net.SplitHostPort(second.Addr().String()); host != "127.0.0.1" || first.Addr().String() == second.Addr().String() {
		t.Errorf("%s beside %s", second.Addr(), first.Addr())
	}
}
