package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// refusal is an error that a page shows to its reader, as message and hint.
type refusal struct {
	status        int
	message, hint string
	code          string // in answers of the JSON API; "": the code of the status
	Request       string // id of the request, under which the log has the details; "": it has none
	bare          bool   // the page shows no navigation, because the reader has not signed in
	Back          crumb  // link to the page that shows the outcome of a form; zero: the list of runs
}

func (e *refusal) Error() string { return e.message }

// Status, Message, Hint, Title and Bare are for the template.
func (e *refusal) Status() int     { return e.status }
func (e *refusal) Message() string { return e.message }
func (e *refusal) Hint() string    { return e.hint }
func (e *refusal) Title() string   { return http.StatusText(e.status) }
func (e *refusal) Bare() bool      { return e.bare }

// problemOf returns the refusal that a page shows for err, never nil. A *refusal in err is returned as it is. An error that
// problemOf does not know becomes status 500 without details; answerError logs the details.
func problemOf(err error) *refusal {
	said, _ := errors.AsType[*queue.Error](err)
	known, _ := errors.AsType[*refusal](err)
	switch {
	case known != nil:
		return known
	case errors.Is(err, queue.ErrUnknown):
		p := &refusal{
			status: http.StatusServiceUnavailable, code: codeUnknownOutcome, message: "The connection broke: it is not known whether the database did what you asked.",
			hint: "Look at the run, schedule, queue or worker before you ask again.",
		}
		if lost, ok := errors.AsType[*queue.UnknownError](err); ok {
			p.hint = sentence(lost.Hint)
		}
		return p
	case said != nil && denied[said.Code]:
		return &refusal{
			status: http.StatusForbidden, message: "This login lacks the right: " + runview.InlineText(said.Message) + ".",
			hint: cmp.Or(said.Hint, "An administrator can grant this login a role: oarlock_read to see, oarlock_submit to run, oarlock_approve to decide approvals, oarlock_admin to steer all."),
		}
	case said != nil && strings.HasPrefix(said.Code, refusedLogin):
		return &refusal{
			status: http.StatusServiceUnavailable, code: codeRefusedLogin, message: "The database refuses the login of these pages.",
			hint: "Ask the operator of this server to check the password and the rights of that login.",
		}
	case said != nil && strings.HasPrefix(said.Code, ownCode):
		status := http.StatusConflict
		if errors.Is(err, queue.ErrNotFound) {
			status = http.StatusNotFound
		}
		return &refusal{status: status, message: "The database refuses the request: " + runview.InlineText(said.Message) + ".", hint: runview.InlineText(said.Hint)}
	case errors.Is(err, queue.ErrNotFound):
		return &refusal{
			status: http.StatusNotFound, message: "The run, DAG or step does not exist, or you lack the right to see it.",
			hint: "Oarlock deletes runs that are older than the retention of their DAG: `oarlock prune --help` says more.",
		}
	case said != nil && said.Code == notUTF8:
		return &refusal{status: http.StatusBadRequest, message: "The address, or the form, has a text that is not UTF-8.", hint: "Follow a link, or type the text again."}
	case said != nil && otherSchema[said.Code]:
		return &refusal{
			status: http.StatusServiceUnavailable, code: codeOtherSchema, message: "The database has no Oarlock schema, or its schema has another version.",
			hint: "`oarlock migrate status` prints the version of the schema.",
		}
	case queue.Passing(err) || errors.Is(err, queue.ErrClosed) || errors.Is(err, queue.ErrWaiting) || errors.Is(err, context.DeadlineExceeded):
		return &refusal{
			status: http.StatusServiceUnavailable, message: "The database is away, or does not answer in time.",
			hint: "Load the page again; `oarlock doctor` says what is wrong.",
		}
	}
	return &refusal{status: http.StatusInternalServerError, message: "This page could not be made.", hint: "The log of this server says why."}
}

// sentence returns words with a capital first letter and a full stop at the end.
func sentence(words string) string {
	return strings.ToUpper(words[:min(1, len(words))]) + words[min(1, len(words)):] + "."
}

const (
	ownCode = "OA"    // prefix of the codes of Oarlock's own refusals
	notUTF8 = "22021" // the text is not UTF-8, or has a NUL

	approversDecide = "OA008"
	refusedLogin    = "28" // prefix of the codes of a name or password that the database rejects
)

// SQLSTATEs: denied are those of a missing right; otherSchema those of a missing schema, table, column or function.
var (
	denied      = map[string]bool{"42501": true, approversDecide: true}
	otherSchema = map[string]bool{"3F000": true, "42P01": true, "42703": true, "42883": true}
)

// answerError answers with an error page, or with a JSON error to a client of the API. It logs errors with a status of 500 or more.
// It answers nothing if the client has disconnected. If the database refused the login and s.onRefused is set, it calls that and
// asks the user to sign in again.
func (s *server) answerError(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return // the client has disconnected
	}
	p, program := *problemOf(err), s.isAPI(r)
	if p.code == codeRefusedLogin && s.onRefused != nil {
		s.onRefused()
		p = *signInProblem(ErrWrongLogin)
	}
	if id, none := parseRunID(r); none == nil && r.Method == http.MethodPost {
		p.Back = crumb{fmt.Sprintf("Run %d", id), runPath(id)}
	}
	var object runview.ErrorJSON
	if program {
		p.status, object = apiErrorOf(&p, err)
	}
	if p.status >= http.StatusInternalServerError {
		p.Request = w.Header().Get(requestIDHeader)
		s.log.ErrorContext(r.Context(), "page failed", "request", p.Request, "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if program {
		_ = answerJSON(w, p.status, map[string]runview.ErrorJSON{"error": object})
		return
	}
	if err := s.renderStatus(w, r, p.status, "error.html", page{Title: p.Title(), Bare: p.bare, Data: &p}); err != nil {
		s.log.ErrorContext(r.Context(), "error page failed", "request", w.Header().Get(requestIDHeader), "error", err)
		http.Error(w, p.message, p.status)
	}
}
