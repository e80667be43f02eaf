package http_test

import (
	"context"
	"encoding/json"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/action/http"
)

// serve answers requests until the test ends.
func serve(t *testing.T, answer nethttp.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

// call executes one http.request, and also returns its log.
func call(t *testing.T, with map[string]any) (dagrun.Result, string) {
	t.Helper()
	return callContext(t.Context(), with, http.Policy{})
}

func callContext(ctx context.Context, with map[string]any, p http.Policy) (dagrun.Result, string) {
	var log strings.Builder
	task := &worker.Task{
		Key: "key-1", Resolved: &dagspec.Resolved{With: with}, Body: &dagspec.Step{With: with}, Stdout: io.Discard, Stderr: &log,
		Started: func() {}, Now: make(chan struct{}),
	}
	return http.New(p).Execute(ctx, task), log.String()
}

// Only a host that the file names may close pools: the host that a param names could close them for all.
func TestExecute_HearsRetryAfterOfNoForeignHost(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(nethttp.StatusTooManyRequests)
	})
	for written, heard := range map[string]bool{
		url + "/a/${params.id}": true, url: true, url + "?q=${params.q}": false, "${params.url}": false, "http://${params.host}/x": false, "${secrets.URL}": false,
	} {
		task := &worker.Task{
			Key: "key-1", Resolved: &dagspec.Resolved{With: map[string]any{"url": url}}, Body: &dagspec.Step{With: map[string]any{"url": written}},
			Stdout: io.Discard, Stderr: io.Discard, Started: func() {}, Now: make(chan struct{}),
		}
		http.New(http.Policy{}).Execute(t.Context(), task)
		if task.LeaveAlone > 0 != heard {
			t.Errorf("%s: to be left alone for %v", written, task.LeaveAlone)
		}
	}
}

// A service that says when to come back is heard, and only then.
func TestExecute_HearsRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		header string
		want   time.Duration
	}{
		{429, "120", 2 * time.Minute},
		{503, "3", 3 * time.Second},
		{500, "3", 0},
		{200, "3", 0},
		{429, "", 0},
		{429, "-5", 0},
		{429, "soon", 0},
		{429, "99999999999999999999", 0},
		{429, "Wed, 21 Oct 2015 07:28:00 GMT", 0},
		{429, time.Now().Add(time.Hour).UTC().Format(nethttp.TimeFormat), time.Hour},
	} {
		url := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Retry-After", tt.header)
			w.WriteHeader(tt.status)
		})
		with := map[string]any{"url": url}
		task := &worker.Task{
			Key: "key-1", Resolved: &dagspec.Resolved{With: with}, Body: &dagspec.Step{With: with}, Stdout: io.Discard, Stderr: io.Discard,
			Started: func() {}, Now: make(chan struct{}),
		}
		http.New(http.Policy{}).Execute(t.Context(), task)
		if d := tt.want - task.LeaveAlone; d < 0 || d > time.Minute {
			t.Errorf("status %d, Retry-After %q: to be left alone for %v, want %v", tt.status, tt.header, task.LeaveAlone, tt.want)
		}
	}
}

func TestExecute_PutsOutWhatCameBack(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Method+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("Idempotency-Key"))
		w.WriteHeader(nethttp.StatusCreated)
		_, _ = w.Write(body)
	})
	res, log := call(t, map[string]any{"method": "POST", "url": url + "/x?token=secret", "body": map[string]any{"day": 7}})
	var out struct {
		Status  int
		Headers map[string]string
		Body    string
	}
	if err := json.Unmarshal([]byte(res.Outputs), &out); err != nil || res.Kind != dagrun.KindNone {
		t.Fatalf("%+v: %v", res, err)
	}
	if out.Status != 201 || out.Body != `{"day":7}` || out.Headers["X-Seen"] != "POST application/json key-1" {
		t.Errorf("outputs %+v", out)
	}
	if strings.Contains(log, "secret") || !strings.Contains(log, "/x: 201") {
		t.Errorf("logged %q", log)
	}
}

// A URL with secrets is logged with the DAG's references in place of the secrets, and without credentials and query.
func TestExecute_NamesSecretsOfItsURL(t *testing.T) {
	t.Parallel()
	url := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) {})
	for shown, want := range map[string]string{
		"${secrets.HOOK}":                                "GET ${secrets.HOOK}: 200 in ",
		"${secrets.BASE}/send?key=${secrets.KEY}":        "GET ${secrets.BASE}/send: 200 in ",
		"http://bot:${secrets.P}@x/${secrets.KEY}#there": "GET http://x/${secrets.KEY}: 200 in ",
		"http://${secrets.HOST}?key=plain":               "GET http://${secrets.HOST}: 200 in ",
	} {
		var log strings.Builder
		task := &worker.Task{
			Resolved: &dagspec.Resolved{With: map[string]any{"url": url + "/hidden"}, ShownURL: shown},
			Stdout:   io.Discard, Stderr: &log, Started: func() {}, Now: make(chan struct{}),
		}
		if res := http.New(http.Policy{}).Execute(t.Context(), task); res.Kind != dagrun.KindNone || !strings.HasPrefix(log.String(), want) {
			t.Errorf("%s: %+v, logged %q", shown, res, log.String())
		}
	}
}

func TestExecute_FailsByStatusUnlessExpected(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) { nethttp.Error(w, "no tea", nethttp.StatusTeapot) })
	res, log := call(t, map[string]any{"url": url})
	if res.Kind != dagrun.KindHTTP || res.Reason != "status 418" || !strings.Contains(log, "no tea") {
		t.Errorf("%+v, logged %q", res, log)
	}
	if res, _ := call(t, map[string]any{"url": url, "expect_status": []any{418}}); res.Kind != dagrun.KindNone {
		t.Errorf("expected, but %+v", res)
	}
}

// Wherever an answer is cut, its end in the log is not the beginning of a secret.
func TestExecute_LogsNoHalfASecret(t *testing.T) {
	t.Parallel()
	const said = "you sent "
	for secret, shown := range map[string]string{
		"correct-battery-staple":    "correct-battery-staple",
		`pass&word"with-quote-long`: `pass&word\"with-quote-long`, // in the quoting of an error, not of JSON
	} {
		url := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			nethttp.Error(w, said+shown+" and no tea", nethttp.StatusTeapot)
		})
		for size := 1; size <= len(said+shown); size++ {
			var log strings.Builder
			task := &worker.Task{
				Resolved: &dagspec.Resolved{With: map[string]any{"url": url, "max_bytes": size}}, Secrets: map[string]string{"TOKEN": secret},
				Stdout: io.Discard, Stderr: &log, Started: func() {}, Now: make(chan struct{}),
			}
			http.New(http.Policy{}).Execute(t.Context(), task)
			_, tail, _ := strings.Cut(log.String(), "\n")
			want := said[:min(size, len(said))]
			if size == len(said+shown) {
				want += "***"
			}
			if tail != want+"\n" {
				t.Errorf("of %d bytes the log has %q, want %q", size, tail, want)
			}
		}
	}
}

// Server and client may write the name of a header with any capitals.
func TestExecute_MasksNamesOfHeaders(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		for _, name := range []string{"Xcorrect-battery-staple", "X-CORRECT-BATTERY-STAPLE", "X-Seen"} {
			w.Header().Set(name, "y")
		}
	})
	task := &worker.Task{
		Resolved: &dagspec.Resolved{With: map[string]any{"url": url}}, Secrets: map[string]string{"TOKEN": "correct-battery-Staple"},
		Stdout: io.Discard, Stderr: io.Discard, Started: func() {}, Now: make(chan struct{}),
	}
	res := http.New(http.Policy{}).Execute(t.Context(), task)
	var out struct{ Headers map[string]string }
	if err := json.Unmarshal([]byte(res.Outputs), &out); err != nil {
		t.Fatalf("%+v: %v", res, err)
	}
	for _, name := range []string{"x***", "x-***", "X-Seen"} {
		if out.Headers[name] != "y" {
			t.Errorf("no header %s in %v", name, out.Headers)
		}
	}
	if strings.Contains(strings.ToLower(string(res.Outputs)), "staple") {
		t.Errorf("a name shows the secret: %s", res.Outputs)
	}
}

func TestExecute_RefusesWhatItCannotPutOut(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		_, _ = w.Write([]byte(map[string]string{"/nul": "a\x00b", "/bytes": "\xff\xfe", "/long": strings.Repeat("x", 100)}[r.URL.Path]))
	})
	for path, want := range map[string]dagrun.FailureKind{"/nul": dagrun.KindOutput, "/bytes": dagrun.KindOutput, "/long": dagrun.KindOutput} {
		if res, _ := call(t, map[string]any{"url": url + path, "max_bytes": 99}); res.Kind != want {
			t.Errorf("%s: %+v, want %s", path, res, want)
		}
	}
}

func TestExecute_CredentialsStayWithTheirHost(t *testing.T) {
	t.Parallel()
	seen := make(chan nethttp.Header, 2)
	other := serve(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) { seen <- r.Header })
	other = strings.Replace(other, "127.0.0.1", "localhost", 1)
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		nethttp.Redirect(w, r, other, nethttp.StatusTemporaryRedirect)
	})
	with := map[string]any{"url": url, "headers": map[string]any{"X-Api-Key": "secret", "Authorization": "Bearer secret"}}
	if res, _ := call(t, with); res.Kind != dagrun.KindNone {
		t.Fatalf("%+v", res)
	}
	for name, values := range <-seen {
		if strings.Contains(strings.Join(values, " "), "secret") || name == "Idempotency-Key" {
			t.Errorf("the other host got %s", name)
		}
	}
	with["method"], with["body"] = "POST", "mine"
	if res, _ := call(t, with); res.Kind != dagrun.KindHTTP || !strings.Contains(res.Reason, "another host") {
		t.Errorf("a body went to another host: %+v", res)
	}
}

func TestExecute_CarriesTheTrace(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	url := serve(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) { seen <- r.Header.Get("Traceparent") })
	for _, tt := range []struct {
		headers    map[string]any
		run, wants string
	}{
		{nil, "00-1-2-01", "00-1-2-01"},
		{map[string]any{"traceparent": "the step's"}, "00-1-2-01", "the step's"},
		{nil, "", ""},
	} {
		task := &worker.Task{
			Traceparent: tt.run, Resolved: &dagspec.Resolved{With: map[string]any{"url": url, "headers": tt.headers}},
			Stdout: io.Discard, Stderr: io.Discard, Started: func() {}, Now: make(chan struct{}),
		}
		if res := http.New(http.Policy{}).Execute(t.Context(), task); res.Kind != dagrun.KindNone {
			t.Fatalf("%+v", res)
		}
		if got := <-seen; got != tt.wants {
			t.Errorf("run %q, step %v: %q, want %q", tt.run, tt.headers, got, tt.wants)
		}
	}
}

func TestExecute_ChecksAddressesAfterDNS(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://169.254.169.254/latest", "http://[fe80::1]/", "http://[::ffff:169.254.169.254]/", "http://100.100.100.200/"} {
		if res, _ := call(t, map[string]any{"url": url}); res.Kind != dagrun.KindHTTP || !strings.Contains(res.Reason, "is denied") {
			t.Errorf("%s: %+v", url, res)
		}
	}
	url := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) {})
	deny := http.Policy{Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	if res, _ := callContext(t.Context(), map[string]any{"url": url}, deny); !strings.Contains(res.Reason, "is denied") {
		t.Errorf("denied by configuration, but %+v", res)
	}
	deny.Allow = deny.Deny
	if res, _ := callContext(t.Context(), map[string]any{"url": url}, deny); res.Kind != dagrun.KindNone {
		t.Errorf("allowed by configuration, but %+v", res)
	}
}

func TestExecute_EndsWithItsContextAndItsTimeout(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 2)
	url := serve(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		reached <- struct{}{}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reached
		cancel()
	}()
	if res, _ := callContext(ctx, map[string]any{"url": url}, http.Policy{}); res.Kind != dagrun.KindHTTP {
		t.Errorf("cancelled: %+v", res)
	}
	if res, _ := call(t, map[string]any{"url": url, "timeout": "30ms"}); res.Reason != "there was no answer within 30ms" {
		t.Errorf("timed out: %+v", res)
	}
}

func TestExecute_SaysWhatIsWrongWithTheStep(t *testing.T) {
	t.Parallel()
	for _, with := range []map[string]any{
		{"url": "ftp://x"},
		{"url": "nothing"},
		{"url": "http://x", "timeout": "3"},
		{"url": "http://x", "max_bytes": "none"},
		{"url": "http://x", "max_bytes": 64<<10 + 1},
		{"url": "http://x", "expect_status": []any{"ok"}},
	} {
		if res, _ := call(t, with); res.Kind != dagrun.KindConfig || !strings.Contains(res.Reason, "with.") {
			t.Errorf("%v: %+v", with, res)
		}
	}
}

func TestProbe_TellsThereFromNotThere(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(nethttp.StatusServiceUnavailable)
		}
		_, _ = w.Write(make([]byte, 1<<20)) // more than an output may hold, and not read
	})
	for to, want := range map[string]string{url + "/ready": "", url + "/no": "the last answer was status 503", gone.URL: "no answer: "} {
		there, why, err := http.New(http.Policy{}).Probe(t.Context(), map[string]any{"url": to})
		if there != (want == "") || !there && !strings.HasPrefix(why, want) || err != nil || strings.Contains(why, "://") {
			t.Errorf("%s: %v, %q, %v", to, there, why, err)
		}
	}
}

func TestProbe_SaysWhatNobodyMayBeAsked(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"ftp://x", "", "http://169.254.169.254/latest"} {
		if there, _, err := http.New(http.Policy{}).Probe(t.Context(), map[string]any{"url": url}); there || err == nil {
			t.Errorf("%q: %v, %v", url, there, err)
		}
	}
}

// crowd takes all descriptors of this process until free is called. The test must be alone in the process.
func crowd(t *testing.T) (free func()) {
	t.Helper()
	var taken []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		taken = append(taken, f)
	}
	return func() {
		for _, f := range taken {
			f.Close()
		}
	}
}

// sockets is how many this process has.
func sockets() (n int) {
	for fd := range descriptors {
		var stat syscall.Stat_t
		if syscall.Fstat(fd, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFSOCK {
			n++
		}
	}
	return n
}

// descriptors is the limit of descriptors in the process of a test that takes all of them.
const descriptors = 64

// A request without a descriptor may start on another host. A request that was sent may have had its effect.
func TestExecute_WithoutADescriptorIsUnstarted(t *testing.T) {
	const alone = "OARLOCK_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: descriptors, Max: descriptors}); err != nil {
		t.Fatal(err)
	}
	url := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) {})
	call(t, map[string]any{"url": url}) // the runtime has now opened what it opens once
	// If a descriptor became free a moment later, the request would take it, and the server would have none to accept the
	// request.
	await.True(t, "both ends of the connection are closed", func() bool { return sockets() == 1 })
	free := crowd(t)
	for _, to := range []string{url, "http://oarlock.invalid/"} {
		if res, _ := call(t, map[string]any{"url": to}); !res.Unstarted || !strings.Contains(res.Reason, "too many open files") {
			t.Errorf("%s: %+v", to, res)
		}
	}
	free()
	if res, _ := call(t, map[string]any{"url": url}); res.Kind != dagrun.KindNone {
		t.Errorf("with descriptors: %+v", res)
	}
	if res, _ := call(t, map[string]any{"url": "http://oarlock.invalid/"}); res.Kind != dagrun.KindHTTP {
		t.Errorf("a name that is none: %+v", res)
	}
}
