package cli

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
)

// asSaid returns an error of the server as package queue wraps it.
func asSaid(code, message, hint string) error {
	return fmt.Errorf("enqueue: %w", &queue.Error{Code: code, Message: message, Hint: hint})
}

// asCaused returns an error of the server of this severity, as package queue wraps it, with the server's error behind it.
func asCaused(severity, code, message string) error {
	return fmt.Errorf("%w: %w", asSaid(code, message, ""), &pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: message})
}

func TestDiagnose_SaysWhatTheQueueSaysInItsOwnWords(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err           error
		kind          kind
		message, hint string
	}{
		"no run":      {fmt.Errorf("get a run: %w", fmt.Errorf("there is no run 41: %w", queue.ErrNotFound)), notFound, "there is no run 41", runHint},
		"a conflict":  {fmt.Errorf("append: %w", fmt.Errorf("another chunk: %w", queue.ErrConflict)), conflict, "another chunk", ""},
		"bare":        {fmt.Errorf("get: %w", queue.ErrNotFound), notFound, "get", runHint},
		"bad param":   {asSaid("OA003", `param "day" is required`, "give it"), invalid, `param "day" is required`, "give it"},
		"key reused":  {asSaid("OA004", "key x is taken", "use another"), conflict, "key x is taken", "use another"},
		"queue full":  {asSaid("OA006", "queue is full", "wait"), conflict, "queue is full", "try again later, or have an administrator start workers or raise the limit of the queue: `oarlock queues set QUEUE --max-queued N`"},
		"approver":    {asSaid("OA008", "not you", "ask ana"), denied, "not you", "ask ana"},
		"unsupported": {asSaid("OA009", "cannot run that", "leave it out"), invalid, "cannot run that", "leave it out"},
		"too large":   {asSaid("OA012", "too large", ""), invalid, "too large", ""},
		"no right":    {asSaid("42501", "permission denied", "grant oarlock_read"), denied, "permission denied", "grant oarlock_read"},
		"no schema":   {asSaid("3F000", "no schema", "x"), schemaVersion, "the database has no Oarlock schema, or a schema of another version", migrateHint},
		"pooled":      {fmt.Errorf("register worker w: %w", queue.ErrPooled), invalid, queue.ErrPooled.Error(), poolerHint},
		"short":       {fmt.Errorf("register: %w", &queue.ShortError{Lent: 4, Needs: 9, Size: 12}), invalid, "the pooler lends 4 connections to this worker, which needs 9", pglink.WorkerPoolHint(12)},
		"refused": {
			fmt.Errorf("register: %w", &queue.ShortError{Lent: 4, Needs: 9, Refused: &pgconn.PgError{Code: "08P01", Message: "no more connections allowed (max_client_conn)"}}),
			invalid, "the pooler lends 4 connections to this worker, which needs 9: no more connections allowed (max_client_conn)",
			"set max_client_conn = 1000 in the pooler's file; the default is 100",
		},
		"crowded": {
			fmt.Errorf("register: %w", &queue.ShortError{Lent: 7, Needs: 10, Direct: true, Refused: &pgconn.PgError{
				Code: "53300", Message: `too many connections for role "w"`, Routine: "InitializeSessionUserId",
			}}),
			unreachable, `the database gives 7 of the 10 connections that this worker needs: too many connections for role "w"`,
			pglink.CrowdedHint(&pgconn.PgError{Routine: "InitializeSessionUserId"}),
		},
		"waiting":  {fmt.Errorf("list runs: %w", queue.ErrWaiting), unreachable, "the pooler has no free connection", pglink.WaitHint()},
		"too many": {asSaid("53300", "sorry", ""), unreachable, "sorry", ""},
		"in use":   {asCaused("ERROR", "55006", "worker w1 is connected"), conflict, "worker w1 is connected", ""},
		"no entry": {
			asCaused("FATAL", "55000", "the database accepts no connections"), unreachable,
			"the database accepts no connections", "try again; if the connection breaks again, type `oarlock doctor`",
		},
		"unknown": {fmt.Errorf("enqueue: %w", &queue.UnknownError{Hint: "give it a key"}), outcomeUnknown, "the connection broke: it is unknown whether the database made the change", "give it a key"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := diagnose(t.Context(), c.err)
			if p.kind != c.kind || p.message != c.message || p.hint != c.hint {
				t.Errorf("got %v %q, hint %q; want %v %q, hint %q", p.kind, p.message, p.hint, c.kind, c.message, c.hint)
			}
		})
	}
}

func TestDiagnose_LooksThroughTheQueueAtTheServer(t *testing.T) {
	t.Parallel()
	lost := fmt.Errorf("list runs: %w", context.DeadlineExceeded)
	if p := diagnose(t.Context(), lost); p.kind != unreachable || p.hint == "" {
		t.Errorf("a slow database is %v, hint %q", p.kind, p.hint)
	}
	standby := fmt.Errorf("enqueue: %w", &pgconn.PgError{Code: "25006", Message: "cannot execute INSERT"})
	if p := diagnose(t.Context(), standby); p.kind != readOnly {
		t.Errorf("a standby is %v", p.kind)
	}
}
