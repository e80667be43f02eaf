package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	maxFormBytes = 1 << 20
	onceField    = "once"
)

// answer is the reply to a form: a redirect to a page, or a page itself.
type answer struct {
	To     string // path below the base that the browser is sent to; "": the answer is a page
	File   string // template of the page, where To is ""
	Page   page
	Status int // of the page; from 400 on the action did nothing, and the page shows the form again
}

// action performs the request of a form. It returns the page to answer with, or the path to redirect to; an error becomes the
// page of a problem.
type action func(*http.Request) (answer, error)

// onceDone is the outcome of a form that acts once. Readers wait for done to be closed before they read answer and err.
type onceDone struct {
	done   chan struct{}
	answer answer
	err    error
}

// post registers do for POST requests to route, a path below Options.Base. For each form it logs the outcome, and then redirects,
// shows the page of the answer, or shows the error. The guard has already refused forms that pages of other sites sent.
func (s *server) post(mux *http.ServeMux, route string, do action) {
	mux.HandleFunc("POST "+s.options.Base+route, func(w http.ResponseWriter, r *http.Request) {
		a, err := s.act(w, r, do)
		s.logAction(w, r, a, err)
		switch {
		case err != nil:
			s.answerError(w, r, err)
		case a.To != "":
			s.redirect(w, r, a.To)
		default:
			if err := s.renderStatus(w, r, a.Status, a.File, a.Page); err != nil {
				s.answerError(w, r, err)
			}
		}
	})
}

// act reads the fields of a form and runs do, by onlyOnce if the form has a nonce. It refuses a form over maxFormBytes, and every
// form if Options.ReadOnly is set.
func (s *server) act(w http.ResponseWriter, r *http.Request, do action) (answer, error) {
	if s.options.ReadOnly {
		return answer{}, &refusal{status: http.StatusForbidden, message: "These pages only read.", hint: "`oarlock web` without --read-only also takes actions."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	if err := r.ParseForm(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return answer{}, &refusal{status: http.StatusRequestEntityTooLarge, message: "The form is longer than 1 MiB.", hint: "The command line takes longer values."}
		}
		return answer{}, &refusal{status: http.StatusBadRequest, message: "The form cannot be read.", hint: "Load the page of the form again."}
	}
	if r.PostForm.Get(onceField) != "" {
		return s.onlyOnce(r, do)
	}
	return do(r)
}

// onlyOnce runs do for the first of several posts with the same path and fields, and returns its answer to all of them. A later
// post waits for that answer until its client disconnects; the action goes on even if its client disconnects. The server remembers
// the answers of up to keptMax forms.
//
// If do failed, panicked or showed the form again, the next post runs do again, except after queue.ErrUnknown: do may then have
// acted. A page that is loaded again has another nonce among its fields, so its form acts again.
func (s *server) onlyOnce(r *http.Request, do action) (answer, error) {
	mine := &onceDone{done: make(chan struct{}), err: errors.New("the action did not end")} // the error that waiting posts get if do panics
	key := formSum(r)
	if before, taken := s.acted.putNew(key, mine); taken {
		select {
		case <-before.done:
			return before.answer, before.err
		case <-r.Context().Done():
			return answer{}, r.Context().Err()
		}
	}
	defer func() {
		if shownAgain := mine.answer.Status >= http.StatusBadRequest; shownAgain || mine.err != nil && !errors.Is(mine.err, queue.ErrUnknown) {
			s.acted.drop(key)
		}
		close(mine.done)
	}()
	whole := r.WithContext(context.WithoutCancel(r.Context())) // the action goes on when the reader leaves: the request was made
	mine.answer, mine.err = do(whole)
	return mine.answer, mine.err
}

// formSum returns a hash of a form's path and fields. A form in which a field was changed has another hash.
func formSum(r *http.Request) [sha256.Size]byte {
	return sha256.Sum256([]byte(r.URL.Path + "?" + r.PostForm.Encode()))
}

// logAction logs which user posted to which path, with the outcome: failed if err is not nil, asked again if the page shows the
// form again, else done. It does not log the fields of the form.
func (s *server) logAction(w http.ResponseWriter, r *http.Request, a answer, err error) {
	outcome := "done"
	switch {
	case err != nil:
		outcome = "failed"
	case a.Status >= http.StatusBadRequest:
		outcome = "asked again"
	}
	s.log.InfoContext(r.Context(), "action", "request", w.Header().Get(requestIDHeader), "path", r.URL.Path, "user", nameOf(r.Context()), "client", clientOf(r), "outcome", outcome)
}

// newNonce returns a random name for a form, by which the server notices that the form is sent twice.
func newNonce() string { return rand.Text() }

// readRights returns the rights of the login, at most lookInterval old. If Options.ReadOnly is set, they lack submit, approve and
// admin.
func (s *server) readRights(ctx context.Context) (queue.Rights, error) {
	g, err := s.glances.get(ctx)
	if err != nil {
		return queue.Rights{}, err
	}
	if s.options.ReadOnly {
		g.Rights.Submit, g.Rights.Approve, g.Rights.Admin = false, false, false
	}
	return g.Rights, nil
}

// rights returns the rights by which pages decide which actions to offer, as readRights does. It returns no rights if they cannot
// be read.
func (s *server) rights(ctx context.Context) queue.Rights {
	rights, _ := s.readRights(ctx)
	return rights
}
