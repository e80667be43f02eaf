package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

// Action executes http.request steps, and is the prober of waits for an HTTP answer.
type Action struct{ policy Policy }

// New returns an Action that dials only addresses that the policy allows.
func New(p Policy) *Action { return &Action{policy: p} }

// answer is the answer of a server.
type answer struct {
	status  int
	headers http.Header
	body    []byte
	cut     bool // the body was longer
}

// shownBytes is how much of a failed answer's body goes to the log.
const shownBytes = 4 << 10

// Execute implements worker.Executor: it sends the request of a task, and returns status, headers and body of the answer as
// outputs. It adds the headers Idempotency-Key and Traceparent unless the step sets them. An unexpected status, or no answer, fails
// the attempt as kind http. The request is cut off when ctx ends or task.Now is closed.
func (a *Action) Execute(ctx context.Context, task *worker.Task) dagrun.Result {
	r, err := parse(task.Resolved.With, task.Resolved.ShownURL)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	if r.headers.Get("Idempotency-Key") == "" {
		r.headers.Set("Idempotency-Key", task.Key)
	}
	if task.Traceparent != "" && r.headers.Get("Traceparent") == "" {
		r.headers.Set("Traceparent", task.Traceparent)
	}
	ctx, cancel := untilNow(ctx, task.Now)
	defer cancel()
	task.Started()
	begun := time.Now()
	var got *answer
	var connected atomic.Bool
	err = a.send(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}), r, func(res *http.Response) (err error) {
		got, err = r.read(res)
		return err
	})
	took := time.Since(begun).Round(time.Millisecond)
	if err != nil && !connected.Load() {
		if lack := lacking(err); lack != nil {
			return worker.Unstarted(lack, "")
		}
	}
	if err != nil {
		fmt.Fprintf(task.Stderr, "%s failed after %v: %v\n", r.place(), took, err)
		return dagrun.Result{Kind: dagrun.KindHTTP, Reason: err.Error()}
	}
	fmt.Fprintf(task.Stderr, "%s: %d in %v, %d bytes\n", r.place(), got.status, took, len(got.body))
	if !r.expects(got.status) {
		mask := task.Masked // masked before it is cut for the log, because half a secret is not recognised
		if got.cut {
			mask = task.MaskedCut
		}
		told := mask(string(got.body))
		fmt.Fprintf(task.Stderr, "%s\n", told[:min(len(told), shownBytes)])
		if fixedHost(task.Body) {
			task.LeaveAlone = got.leaveAlone(time.Now())
		}
		return dagrun.Result{Kind: dagrun.KindHTTP, Reason: fmt.Sprintf("status %d", got.status)}
	}
	if got.cut {
		return dagrun.Result{Kind: dagrun.KindOutput, Reason: r.tooLong()}
	}
	return got.result(task)
}

// fixedHost reports whether the file of the DAG names the host of the request. A host that params, outputs or secrets name must not
// close pools, which others use too.
func fixedHost(body *dagspec.Step) bool {
	if body == nil {
		return false // the program that embeds the action made the task
	}
	url, _ := body.With["url"].(string)
	_, rest, ok := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return ok && !strings.Contains(host, "$")
}

// leaveAlone returns for how long the service wants no more requests: the header Retry-After of a status 429 or 503, in seconds or as
// a date. It returns 0 if the answer does not say.
func (got *answer) leaveAlone(now time.Time) time.Duration {
	if got.status != http.StatusTooManyRequests && got.status != http.StatusServiceUnavailable {
		return 0
	}
	header := got.headers.Get("Retry-After")
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// lacking returns the error by which this host lacks descriptors or memory, if that is the reason why no connection was made; else
// nil. err is the error of the request. A resolver does not return the reason of its failure, so after a failed lookup lacking
// tries whether the host can open descriptors.
func lacking(err error) error {
	if worker.Lacks(err) {
		return err
	}
	if _, unresolved := errors.AsType[*net.DNSError](err); unresolved {
		if lack := worker.OpenSome(context.Background()); worker.Lacks(lack) {
			return lack
		}
	}
	return nil
}

// untilNow returns a context that ends with ctx, or when now is closed: a request needs no grace. A nil now never ends it. The
// caller must call the function, since a goroutine waits until the context ends.
func untilNow(ctx context.Context, now <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if now != nil {
		go func() {
			select {
			case <-now:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// Probe sends one request, and reports by there whether the answer has a status that with expects, so that the wait is over. If
// not, why describes the answer, or says why no server answered. A missing answer is no error: only a wrong request or a denied
// address is.
func (a *Action) Probe(ctx context.Context, with map[string]any) (there bool, why string, err error) {
	r, err := parse(with, "")
	if err != nil {
		return false, "", err
	}
	err = a.send(ctx, r, func(res *http.Response) error {
		there, why = r.expects(res.StatusCode), fmt.Sprintf("the last answer was status %d", res.StatusCode)
		return nil
	})
	if _, denied := errors.AsType[*deniedError](err); denied {
		return false, "", err
	}
	if err != nil {
		why = "no answer: " + err.Error()
	}
	return there, why, nil
}

// send sends a request, follows redirects, and calls read with the answer, which it closes afterwards. A timeout of the step covers
// read, too. It returns an error of the request or of read, without the URL.
func (a *Action) send(ctx context.Context, r *request, read func(*http.Response) error) error {
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("there was no answer within %v", r.timeout))
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), r.reader())
	if err != nil {
		return plain(ctx, err)
	}
	req.Header = r.headers.Clone()
	if r.isJSON && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	transport := &http.Transport{DialContext: a.policy.dialer(r.connect).DialContext, TLSHandshakeTimeout: r.connect, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: follow}
	res, err := client.Do(req)
	if err != nil {
		return plain(ctx, err)
	}
	defer res.Body.Close()
	if err := read(res); err != nil {
		return plain(ctx, err)
	}
	return nil
}

// read reads the body of an answer, up to the size that the step allows. If the body is longer, the answer is cut. The caller
// closes res.
func (r *request) read(res *http.Response) (*answer, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, r.maxBytes+1))
	if err != nil {
		return nil, err
	}
	kept := min(int64(len(body)), r.maxBytes)
	return &answer{res.StatusCode, res.Header, body[:kept], int64(len(body)) > kept}, nil
}

// follow decides about a redirect to req, as http.Client.CheckRedirect; nil: it is followed. It lets nothing that a step sends go
// to another host, or from https to http: it drops the headers, and refuses to send a body again. More than maxRedirects are an
// error.
func follow(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case req.URL.Host == first.URL.Host && (req.URL.Scheme == first.URL.Scheme || req.URL.Scheme == "https"):
		return nil
	case req.Body != nil && req.Body != http.NoBody:
		return errors.New("the server redirects the request with its body to another host: write the other host into with.url if you want this")
	}
	req.Header = http.Header{} //nolint:gosec // this only removes headers
	return nil
}

// plain returns the cause if ctx has ended. Otherwise it returns err without the URL in its text, because a URL may contain
// secrets.
func plain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var wrapped interface{ Unwrap() error }
	for errors.As(err, &wrapped) && strings.Contains(err.Error(), "://") {
		err = wrapped.Unwrap()
		wrapped = nil
	}
	return err
}

// result returns an answer as outputs, with the secrets in it masked. A body that is not UTF-8 or has a NUL byte cannot be an
// output: then the result is a failure of kind output.
func (got *answer) result(task *worker.Task) dagrun.Result {
	if !utf8.Valid(got.body) || bytes.IndexByte(got.body, 0) >= 0 {
		return dagrun.Result{Kind: dagrun.KindOutput, Reason: "the body of the answer is not text, and cannot be an output"}
	}
	flat := make(map[string]string, len(got.headers))
	for name, values := range got.headers {
		flat[task.MaskedName(name)] = task.Masked(strings.Join(values, ", "))
	}
	outputs, err := json.Marshal(map[string]any{"status": got.status, "headers": flat, "body": task.Masked(string(got.body))})
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindOutput, Reason: err.Error()}
	}
	return dagrun.Result{Outputs: dagrun.JSON(outputs)}
}
