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

// answer is what a form is answered with: the way to a page, or a page.
type answer struct {
	To     string // path below the base
	File   string // template of a page, where To is ""
	Page   page
	Status int // of the page; from 400 on nothing was done, and the page has the form again
}

// action does what a form asks for.
type action func(*http.Request) (answer, error)

// onceDone is what became of a form that acts once. Its fields are set once done is closed.
type onceDone struct {
	done   chan struct{}
	answer answer
	err    error
}

// post serves a form. The guard has refused those of other sites.
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

func (s *server) act(w http.ResponseWriter, r *http.Request, do action) (answer, error) {
	if s.options.ReadOnly {
		return answer{}, &refusal{status: http.StatusForbidden, message: "These pages only read.", hint: "`oarlock web` without --read-only also acts."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	if err := r.ParseForm(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return answer{}, &refusal{status: http.StatusRequestEntityTooLarge, message: "The form is longer than 1 MiB.", hint: "The command line takes more."}
		}
		return answer{}, &refusal{status: http.StatusBadRequest, message: "The form cannot be read.", hint: "Load its page again."}
	}
	if r.PostForm.Get(onceField) != "" {
		return s.onlyOnce(r, do)
	}
	return do(r)
}

// onlyOnce acts for the first of several posts of one form, and answers the others alike. A form that was shown again may be
// sent again, as may one whose action failed for certain, and one in which somebody changed something.
func (s *server) onlyOnce(r *http.Request, do action) (answer, error) {
	mine := &onceDone{done: make(chan struct{}), err: errors.New("the action did not end")} // stays if do panics
	key := formSum(r)
	if before, taken := s.acted.putNew(key, mine); taken {
		select {
		case <-before.done:
			return before.answer, before.err
		case <-r.Context().Done():
			return answer{}, r.Context().Err()
		}
	}
	defer close(mine.done)
	whole := r.WithContext(context.WithoutCancel(r.Context())) // a reader who leaves has asked all the same
	mine.answer, mine.err = do(whole)
	if shownAgain := mine.answer.Status >= http.StatusBadRequest; shownAgain || mine.err != nil && !errors.Is(mine.err, queue.ErrUnknown) {
		s.acted.drop(key)
	}
	return mine.answer, mine.err
}

// formSum tells a form from others, and from itself with something changed.
func formSum(r *http.Request) [sha256.Size]byte {
	return sha256.Sum256([]byte(r.URL.Path + "?" + r.PostForm.Encode()))
}

// logAction says who asked for what. What was asked with it is in the database.
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

// newNonce names a form, so that it acts once.
func newNonce() string { return rand.Text() }

// readRights reads what the login may do. A server that only reads does none of it.
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

// rights are those that pages go by in what they offer: none where they cannot be told.
func (s *server) rights(ctx context.Context) queue.Rights {
	rights, _ := s.readRights(ctx)
	return rights
}
