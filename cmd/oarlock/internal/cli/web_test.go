package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/web"
)

// firstLine reads the output of a command, and passes its first line on.
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
	database := passing(t, pgtest.New(t).URL)
	for name, cause := range map[string]error{"interrupt": &signalError{interrupt: true}, "terminate": &signalError{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			said := newFirstLine()
			e := testEnv()
			e.Stdout, e.Stderr = io.Discard, said
			e.Lookup = func(name string) (string, bool) {
				return map[string]string{"DATABASE_URL": database}[name], name == "DATABASE_URL"
			}
			ended := make(chan int, 1)
			go func() { ended <- run(ctx, e, []string{"web", "--listen", ":0", "--url", "http://localhost:7070/x/y"}) }()
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
				ask := http.Get
				if path == "doctor" { // the page examines the database only on a POST, and then leads to the result
					ask = func(url string) (*http.Response, error) { return http.PostForm(url, nil) }
				}
				answer, err := ask(address[1] + path)
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

// startWeb serves pages in this process until the test ends, and returns their address.
func startWeb(t *testing.T, variables map[string]string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	said := newFirstLine()
	e := testEnv()
	e.Stdout, e.Stderr = io.Discard, said
	e.Lookup = func(name string) (string, bool) {
		text, ok := variables[name]
		return text, ok
	}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, e, append([]string{"web", "--listen", "127.0.0.1:0"}, args...)) }()
	t.Cleanup(func() {
		cancel(&signalError{})
		<-ended
	})
	select {
	case line := <-said.line:
		return strings.TrimSuffix(strings.TrimPrefix(line, "page      "), "/")
	case code := <-ended:
		ended <- code
		t.Fatalf("it ended with %d: %s", code, said)
		return ""
	}
}

// signIn sends the form, and returns the status of the page to which it leads.
func signIn(t *testing.T, address, name, password string) int {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	answer, err := browser.PostForm(address+"/login", url.Values{"name": {name}, "password": {password}, "to": {"/runs"}})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if page, err := io.ReadAll(answer.Body); err != nil || password != "" && strings.Contains(string(page), fmt.Sprintf("value=%q", password)) {
		t.Errorf("%v: the page shows the password", err)
	}
	return answer.StatusCode
}

func TestWeb_SignsInWithALoginOfTheDatabase(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	db := pgtest.NewWithRoles(t)
	reader, err := url.Parse(db.Login(t, "oarlock_read"))
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := url.Parse(db.User(t, "nobody"))
	if err != nil {
		t.Fatal(err)
	}
	address := startWeb(t, map[string]string{"DATABASE_URL": db.URL, "OARLOCK_WEB_AUTH": "postgres"})
	password, _ := reader.User.Password()
	for name, c := range map[string]struct {
		name, password string
		want           int
	}{
		"reader":         {reader.User.Username(), password, http.StatusOK},
		"wrong password": {reader.User.Username(), "wrong", http.StatusUnprocessableEntity},
		"no password":    {reader.User.Username(), "", http.StatusUnprocessableEntity},
		"no such login":  {"nobody at all'", "x", http.StatusUnprocessableEntity},
		"no role":        {nobody.User.Username(), password, http.StatusForbidden},
	} {
		if got := signIn(t, address, c.name, c.password); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if answer, err := http.Get(address + "/readyz"); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("readyz: %v, %v", answer, err)
	} else {
		answer.Body.Close()
	}
}

func TestWeb_RefusesALoginOfAnotherRole(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	db := pgtest.NewWithRoles(t)
	e := testEnv()
	said := &strings.Builder{}
	e.Stdout, e.Stderr = io.Discard, said
	variables := map[string]string{
		"DATABASE_URL": db.URL, "OARLOCK_WEB_AUTH": "proxy", "OARLOCK_WEB_PROXIES": "127.0.0.1/32", "OARLOCK_WEB_READERS": "*",
		"OARLOCK_WEB_READER_URL": db.Login(t, "oarlock_admin"),
	}
	e.Lookup = func(name string) (string, bool) {
		text, ok := variables[name]
		return text, ok
	}
	if code := run(t.Context(), e, []string{"web", "--listen", "127.0.0.1:0"}); code != int(exitInvalid) || !strings.Contains(said.String(), "has more or fewer rights than a reader") {
		t.Errorf("%d: %s", code, said)
	}
}

// Pages on a server that trusts every client would let any visitor in under any name.
func TestAskedForPassword_RefusesAServerThatTrusts(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			trustOne(conn)
		}
	}()
	address := "postgres://ana:x@" + listener.Addr().String() + "/app?sslmode=disable"
	if err := askedForPassword(t.Context(), address); !errors.Is(err, web.ErrTrusted) || errors.Is(err, web.ErrWrongLogin) {
		t.Errorf("%v, want a refusal that says why", err)
	}
	listener.Close()
	if err := askedForPassword(t.Context(), address); err == nil || errors.Is(err, web.ErrTrusted) {
		t.Errorf("%v of a server that is away", err)
	}
}

// trustOne lets a client in, as a server without passwords does.
func trustOne(conn net.Conn) {
	defer conn.Close()
	backend := pgproto3.NewBackend(conn, conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	_ = backend.Flush()
	_, _ = backend.Receive()
}

func TestAsLogin_ReplacesWhoConnects(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://app:secret@db:5433/x?sslmode=disable", "postgres://db:5433/x?user=app&password=secret&sslmode=disable",
		"host=db port=5433 user=app password=secret dbname=x sslmode=disable",
	} {
		got, err := asLogin(address, `an'a\`, `p'w @/\`)
		if err != nil {
			t.Fatal(err)
		}
		c, err := pgconn.ParseConfig(got)
		if err != nil || c.User != `an'a\` || c.Password != `p'w @/\` || c.Host != "db" || c.Port != 5433 || c.Database != "x" {
			t.Errorf("%s: %+v, %v", address, c, err)
		}
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
