package cli

import (
	"cmp"
	"errors"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
)

// outcomeUnknown has a code of its own, since it is neither success nor failure.
var outcomeUnknown = kind{"outcome_unknown", exitUnreachable}

const migrateHint = "run `oarlock migrate up`; `oarlock migrate status` shows what is there"

const poolerHint = "set pool_mode = session for this database in the pooler's file, or direct_url of the worker to a URL that leads past " +
	"the pooler; see PgBouncer in docs/operations.md"

// queueAdvice has the kind of error for SQLSTATEs: Oarlock's own, and the ones with which Postgres reports a missing schema or
// an invalid value. Without a hint here, the server's hint is shown.
var queueAdvice = map[string]advice{
	"OA001":        {notFound, "`oarlock dag list` shows what is there, `oarlock dag apply FILE` registers a DAG"},
	dagRemovedCode: {kind: notFound},
	"OA003":        {kind: invalid},
	"OA004":        {kind: conflict},
	"OA005":        {kind: invalid},
	"OA006":        {conflict, "try again later, start workers, or raise its limit: `oarlock queues set QUEUE --max-queued N`"},
	"OA007":        {kind: notFound},
	"OA008":        {kind: denied},
	"OA009":        {kind: invalid},
	"OA010":        {kind: conflict},
	"OA012":        {kind: invalid},
	"OA013":        {kind: invalid},
	"OA014":        {conflict, "wait for its end, or cancel it"},
	"OA015":        {kind: invalid},
	"OA016":        {notFound, "`oarlock schedules` lists those that you may see"},
	"22P05":        {kind: invalid},
	"22021":        {kind: invalid},
	"42501":        {kind: denied},
	"3F000":        {schemaVersion, migrateHint},
	"42P01":        {schemaVersion, migrateHint},
	"42703":        {schemaVersion, migrateHint},
	"42883":        {schemaVersion, migrateHint},
}

// fromQueue recognises the errors of package queue.
func (p *problem) fromQueue(err error) bool {
	if refusal, ok := errors.AsType[*queue.Error](err); ok {
		return p.refused(refusal)
	}
	short, isShort := errors.AsType[*queue.ShortError](err)
	switch {
	case errors.Is(err, queue.ErrPooled):
		p.kind, p.message, p.hint = invalid, queue.ErrPooled.Error(), poolerHint
	case isShort && short.Direct:
		p.kind, p.message, p.hint = unreachable, short.Error(), pglink.CrowdedHint(short.Refused)
	case isShort:
		p.kind, p.message, p.hint = invalid, short.Error(), pglink.WorkerPoolHint(short.Size)
		if refusal := pglink.RefusalOf(short.Refused); refusal != nil {
			p.hint = refusal.Hint
		}
	case errors.Is(err, queue.ErrWaiting):
		p.kind, p.message, p.hint = unreachable, "the pooler has no connection free", pglink.WaitHint()
	case errors.Is(err, queue.ErrNotFound):
		p.kind, p.message, p.hint = notFound, said(err, queue.ErrNotFound), cmp.Or(p.hint, runHint)
	case errors.Is(err, queue.ErrConflict):
		p.kind, p.message = conflict, said(err, queue.ErrConflict)
	case errors.Is(err, queue.ErrUnknown):
		p.kind, p.message = outcomeUnknown, "the connection broke: nobody knows whether it was done"
		if lost, ok := errors.AsType[*queue.UnknownError](err); ok {
			p.hint = lost.Hint
		}
	default:
		return false
	}
	return true
}

// refused describes an error of the database. It returns false for an SQLSTATE that is not in queueAdvice, so that
// fromDatabase explains it.
func (p *problem) refused(refusal *queue.Error) bool {
	p.message, p.hint = refusal.Message, refusal.Hint
	a, ok := queueAdvice[refusal.Code]
	if !ok {
		return false
	}
	p.kind, p.hint = a.kind, cmp.Or(a.hint, p.hint)
	switch {
	case a.kind == schemaVersion:
		p.message = "the database has no Oarlock schema, or one of another version"
	case strings.HasPrefix(p.message, noRun): // the server's hint is about SQL
		p.hint = runHint
	case strings.HasPrefix(p.message, "there is no queue "):
		p.hint = "`oarlock queues` lists them, an administrator makes one: `oarlock queues set NAME`"
	}
	return true
}

// noRun begins the database's message about a run that does not exist, or that belongs to another user.
const noRun = "there is no run "

// said returns the text that err adds to a sentinel, without the names of operations before it and the sentinel behind it.
func said(err, sentinel error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if errors.Unwrap(e) == sentinel { //nolint:errorlint // which link of the chain wraps it directly is the question
			return strings.TrimSuffix(e.Error(), ": "+sentinel.Error())
		}
	}
	return err.Error()
}
