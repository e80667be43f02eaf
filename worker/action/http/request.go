package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

// Bounds of a request. A step may set the timeout, and lower the number of bytes.
const (
	defaultConnectTimeout = 10 * time.Second
	maxBytes              = worker.MaxTextBytes // of the answer's body, which is an output
	maxRedirects          = 10
)

// request is a step's `with`, checked.
type request struct {
	method   string
	url      *url.URL
	shown    string // the URL with references in place of secrets; "": the URL has no secrets
	headers  http.Header
	body     []byte
	isJSON   bool
	expect   []int // nil: 200 to 299
	connect  time.Duration
	timeout  time.Duration // 0: none
	maxBytes int64
}

// parse parses a step's `with`, in which references are replaced by their values. An error is the fault of the DAG. shown is the
// URL with references in place of its secrets, for messages and the log; "" if it has none.
func parse(with map[string]any, shown string) (r *request, err error) {
	r = &request{shown: shown, method: http.MethodGet, headers: http.Header{}, connect: defaultConnectTimeout, maxBytes: maxBytes}
	if method, ok := with["method"].(string); ok {
		r.method = method
	}
	text, _ := with["url"].(string)
	if r.url, err = url.Parse(text); err != nil || r.url.Host == "" || r.url.Scheme != "http" && r.url.Scheme != "https" {
		if shown != "" {
			return nil, fmt.Errorf("with.url must be an http or https URL: check the value that the worker has for %s", r.shownPlace())
		}
		return nil, errors.New("with.url must be an http or https URL")
	}
	given, _ := with["headers"].(map[string]any)
	for name, value := range given {
		r.headers.Set(name, fmt.Sprint(value))
	}
	if body, ok := with["body"]; ok {
		if err := r.setBody(body); err != nil {
			return nil, err
		}
	}
	return r, errors.Join(r.setExpect(with["expect_status"]), r.setBounds(with))
}

// setBody sets r.body: to a text as it is, and to any other value as JSON, for which it also sets r.isJSON.
func (r *request) setBody(body any) (err error) {
	if text, ok := body.(string); ok {
		r.body = []byte(text)
		return nil
	}
	r.isJSON = true
	if r.body, err = json.Marshal(body); err != nil {
		return fmt.Errorf("with.body: %w", err)
	}
	return nil
}

func (r *request) setExpect(list any) error {
	codes, _ := list.([]any)
	for _, code := range codes {
		n, err := strconv.Atoi(fmt.Sprint(code))
		if err != nil {
			return fmt.Errorf("with.expect_status: %v is no status code", code)
		}
		r.expect = append(r.expect, n)
	}
	return nil
}

func (r *request) setBounds(with map[string]any) error {
	for name, to := range map[string]*time.Duration{"connect_timeout": &r.connect, "timeout": &r.timeout} {
		if text, ok := with[name].(string); ok {
			span, err := dagspec.ParseDuration(text)
			if err != nil {
				return fmt.Errorf("with.%s: %w", name, err)
			}
			*to = span.Std()
		}
	}
	if limit, ok := with["max_bytes"]; ok {
		n, err := strconv.ParseInt(fmt.Sprint(limit), 10, 64)
		if err != nil || n < 1 || n > maxBytes {
			return fmt.Errorf("with.max_bytes: %v is not from 1 to %d, the largest size of an output", limit, maxBytes)
		}
		r.maxBytes = n
	}
	return nil
}

// tooLong returns the reason for the failure of an answer longer than max_bytes, with advice.
func (r *request) tooLong() string {
	advice := "ask for less data, or let a command put the data elsewhere"
	if r.maxBytes < maxBytes {
		advice = fmt.Sprintf("raise with.max_bytes, to %d at most, or ask for less data", maxBytes)
	}
	return fmt.Sprintf("the answer has more than %d bytes: %s", r.maxBytes, advice)
}

// expects reports whether the step expects a status: one that with.expect_status lists, or without that list 200 to 299.
func (r *request) expects(status int) bool {
	if r.expect == nil {
		return status >= 200 && status <= 299
	}
	return slices.Contains(r.expect, status)
}

// place returns the method and the URL for the log: without credentials, and without the query, which often contains some.
func (r *request) place() string {
	if r.shown != "" {
		return r.method + " " + r.shownPlace()
	}
	shown := url.URL{Scheme: r.url.Scheme, Host: r.url.Host, Path: r.url.Path}
	return r.method + " " + shown.String()
}

// shownPlace returns r.shown without credentials and query. r.shown is not a valid URL before its secrets are filled in, so it is
// cut as text.
func (r *request) shownPlace() string {
	text := r.shown
	if end := strings.IndexAny(text, "?#"); end >= 0 {
		text = text[:end]
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	host, path, isLonger := strings.Cut(rest, "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	if isLonger {
		host += "/"
	}
	return scheme + "://" + host + path
}

func (r *request) reader() io.Reader {
	if r.body == nil {
		return http.NoBody
	}
	return bytes.NewReader(r.body)
}
