package web

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// Codes of errors are the same as on the command line. A refusal sets its own code where one status stands for several codes.
const (
	codeUnknownOutcome = "outcome_unknown"
	codeOtherSchema    = "schema_version"
	codeUnreachable    = "unreachable"
	codeRefusedLogin   = "auth_failed"
)

var statusCodes = map[int]string{
	http.StatusUnauthorized: "auth_failed",
	http.StatusForbidden:    "permission_denied", http.StatusNotFound: "not_found", http.StatusConflict: "conflict", http.StatusTooManyRequests: "conflict",
	http.StatusUnprocessableEntity: "validation", http.StatusServiceUnavailable: codeUnreachable, http.StatusInternalServerError: "error",
}

// databaseStatuses gives the HTTP status for SQLSTATEs that pages answer with 409 or with a general error. They mean that the
// database cannot take the values, or that the queue is full.
var databaseStatuses = map[string]int{
	"OA003": http.StatusUnprocessableEntity, "OA005": http.StatusUnprocessableEntity, "OA006": http.StatusTooManyRequests,
	"OA009": http.StatusUnprocessableEntity, "OA012": http.StatusUnprocessableEntity, "OA013": http.StatusUnprocessableEntity,
	"OA015": http.StatusUnprocessableEntity,
	"22P05": http.StatusUnprocessableEntity, notUTF8: http.StatusUnprocessableEntity, // texts that Postgres cannot store
	"22003": http.StatusUnprocessableEntity, // a number that Postgres cannot store
}

// apiHints replaces the hints that speak of pages.
var apiHints = map[string]string{
	codeUnknownOutcome: "Look whether the request was done before you ask again. You can repeat a request with a run_key.",
	codeUnreachable:    "Ask again in a moment; `oarlock doctor` says what is wrong.",
}

// apiErrorOf returns the status and the JSON error by which the API answers err. p is the refusal that a page would show for err.
// If err has a code of Oarlock or of databaseStatuses, the message and the hint are those of the database, and databaseStatuses may
// replace the status of p. An error for a missing right stays as in p. With status 500, the message has no details.
func apiErrorOf(p *refusal, err error) (status int, e runview.ErrorJSON) {
	status, hint := p.status, p.hint
	e.Message = p.message
	if said, ok := errors.AsType[*queue.Error](err); ok && !denied[said.Code] {
		known := databaseStatuses[said.Code]
		if known != 0 || strings.HasPrefix(said.Code, ownCode) {
			status, e.Message, hint = cmp.Or(known, status), said.Message, said.Hint
		}
	}
	if status == http.StatusInternalServerError {
		e.Message = "This request could not be answered."
	}
	e.Code = cmp.Or(p.code, statusCodes[status], "usage")
	e.Hint = runview.TextOrNull(cmp.Or(apiHints[e.Code], hint))
	return status, e
}
