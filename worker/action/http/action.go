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
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/worker"
)

// Action executes http.request, and probes for waits.
type Action struct{ policy Policy }

// New makes an Action that dials what the policy lets it.
func New(p Policy) *Action { return &Action{policy: p} }

// answer is what came back.
type answer struct {
	status  int
	headers http.Header
	body    []byte
	cut     bool // there was more of the body
}

// shownBytes of an answer that is a failure go to the log.
const shownBytes = 4 << 10

// Execute sends the request of a task.
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
		mask := task.Masked // before it is cut for the log: half a secret is not known for one
		if got.cut {
			mask = task.MaskedCut
		}
		told := mask(string(got.body))
		fmt.Fprintf(task.Stderr, "%s\n", told[:min(len(told), shownBytes)])
		return dagrun.Result{Kind: dagrun.KindHTTP, Reason: fmt.Sprintf("status %d", got.status)}
	}
	if got.cut {
		return dagrun.Result{Kind: dagrun.KindOutput, Reason: r.tooLong()}
	}
	return got.result(task)
}

// lacking is what this host lacks, if that is why no connection was made. A resolver does not say why it could not ask.
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

// untilNow ends a context also when there is no time for grace: a request needs none.
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

// Probe asks once whether what a wait waits for is there, by the status of an answer alone. That nobody answers is an
// answer; that nobody may be asked is an error.
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

// send sends a request and has its answer read.
func (a *Action) send(ctx context.Context, r *request, read func(*http.Response) error) error {
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("no answer within %v", r.timeout))
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

// read takes as much of an answer as the step allows.
func (r *request) read(res *http.Response) (*answer, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, r.maxBytes+1))
	if err != nil {
		return nil, err
	}
	kept := min(int64(len(body)), r.maxBytes)
	return &answer{res.StatusCode, res.Header, body[:kept], int64(len(body)) > kept}, nil
}

// follow lets nothing that a step sends go to another host: its headers stay behind, and a body is not sent again.
func follow(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case req.URL.Host == first.URL.Host && (req.URL.Scheme == first.URL.Scheme || req.URL.Scheme == "https"):
		return nil
	case req.Body != nil && req.Body != http.NoBody:
		return errors.New("redirected with its body to another host: name that one in with.url if it is meant")
	}
	req.Header = http.Header{} //nolint:gosec // it takes headers away
	return nil
}

// plain says what went wrong without the URL, which may hold secrets.
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

// result turns an answer into outputs, without the secrets that it repeats. A body that is no text has no place in them.
func (got *answer) result(task *worker.Task) dagrun.Result {
	if !utf8.Valid(got.body) || bytes.IndexByte(got.body, 0) >= 0 {
		return dagrun.Result{Kind: dagrun.KindOutput, Reason: "the answer's body is no text: it cannot be an output"}
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
