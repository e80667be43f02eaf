package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// waits does what a flush does with an approval that begins to wait.
func (b bundle) waits(t *testing.T, run int64, step int, prompt string, approvers []string) {
	t.Helper()
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, attempt_at)
		VALUES ($1, $2, 'waiting', 1, 1, 1, 1, now(), now())`, run, step)
	must(t, b.conn, `INSERT INTO oarlock.approvals_open VALUES ($1, $2, '', 0, $3, '[{"name": "why", "type": "string", "required": true}]', $4, now())`, run, step, prompt, approvers)
}

// waiting returns the approvals that a user sees, as RUN STEP PROMPT, with ! if the user may decide.
func waiting(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, _ := conn.Query(t.Context(), `SELECT concat_ws(' ', run, step, prompt) || CASE WHEN may_decide THEN '!' ELSE '' END FROM oarlock.waiting_approvals()`)
	seen, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// Each user sees the approvals of its own runs and the ones that it may decide, and may decide exactly where may_decide is true.
func TestWaitingApprovals_ShowToEachWhatItMaySeeAndDecide(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana, boss, eve := b.user(t, "ana", "oarlock_submit"), b.user(t, "boss", "oarlock_submit"), b.user(t, "eve", "oarlock_submit")
	approver, chosen := b.user(t, "app", "oarlock_approve"), b.user(t, "cho", "oarlock_approve")
	reader, admin := b.user(t, "rea", "oarlock_read"), b.user(t, "adm", "oarlock_admin")
	name := get[string](t, boss, "SELECT session_user::text")
	also := get[string](t, chosen, "SELECT session_user::text")
	b.put(t, fmt.Sprintf(`{"name": "pay", "steps": [{"id": "any", "action": "approval"}, {"id": "ok", "action": "approval", "with": {"approvers": [%q, %q]}}]}`, name, also))
	run := get[int64](t, ana, "SELECT oarlock.enqueue('pay')")
	b.claim(t, run)
	b.waits(t, run, 0, "any?", nil)
	b.waits(t, run, 1, "ok?", []string{name, also})
	for _, c := range []struct {
		who  string
		conn *pgx.Conn
		sees []string
	}{
		{"ana", ana, []string{"1 any any?!", "1 ok ok?"}},
		{"boss", boss, []string{"1 ok ok?!"}},
		{"eve", eve, nil},
		{"approver", approver, []string{"1 any any?!"}},
		{"chosen", chosen, []string{"1 any any?!", "1 ok ok?!"}},
		{"reader", reader, []string{"1 any any?", "1 ok ok?"}},
		{"admin", admin, []string{"1 any any?!", "1 ok ok?"}},
	} {
		if seen := waiting(t, c.conn); !slices.Equal(seen, c.sees) {
			t.Errorf("%s sees %q, not %q", c.who, seen, c.sees)
		}
		if c.conn == reader {
			continue // this user may not ask for controls
		}
		for step, prompt := range map[string]string{"any": "1 any any?!", "ok": "1 ok ok?!"} {
			_, err := c.conn.Exec(t.Context(), `SELECT oarlock.approve($1, $2, outputs => '{"why": "x"}')`, run, step)
			if may := slices.Contains(c.sees, prompt); may != (err == nil) {
				t.Errorf("%s is told that it may decide %s: %v; it asks: %v", c.who, step, may, err)
			}
		}
	}
	if got := get[string](t, ana, "SELECT string_agg(concat_ws(' ', step, approval ->> 'prompt', approval ->> 'may_decide'), ', ' ORDER BY step) FROM oarlock.task_status($1)", run); got != "any any? true, ok ok? false" {
		t.Errorf("task_status shows %q", got)
	}
}

// An approver sees a run in which an approval waits for it, or waited: the states of its steps and the outcome of that
// approval, but no params, outputs or events. It sees nothing of a run in which no approval has waited for it.
func TestApprover_SeesARunInWhichItHasASay(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana, app, boss := b.user(t, "ana", "oarlock_submit"), b.user(t, "app", "oarlock_approve"), b.user(t, "boss", "oarlock_submit")
	b.put(t, fmt.Sprintf(`{"name": "pay", "params": [{"name": "to", "type": "string"}], "steps": [{"id": "any", "action": "approval"}, {"id": "ok", "action": "approval", "with": {"approvers": [%q]}},
		{"id": "each", "foreach": {"items": ["a", "b"]}, "run": "true"}]}`, get[string](t, boss, "SELECT session_user::text")))
	run := get[int64](t, ana, `SELECT oarlock.enqueue('pay', '{"to": "secret"}', run_key => 'secret')`)
	other := get[int64](t, ana, `SELECT oarlock.enqueue('pay', '{"to": "secret"}')`)
	b.claim(t, run)
	b.waits(t, run, 0, "any?", nil)
	must(t, b.conn, `UPDATE oarlock.tasks SET outputs = '{"x": "secret"}' WHERE run_id = $1`, run)
	b.waits(t, run, 1, "a secret of boss", nil)
	must(t, b.conn, `UPDATE oarlock.approvals_open SET approvers = '{nobody}' WHERE run_id = $1 AND step = 1`, run)
	must(t, b.conn, `UPDATE oarlock.tasks SET reason = 'no host secret' WHERE run_id = $1 AND step = 1`, run)
	shown := func(conn *pgx.Conn) string {
		return get[string](t, conn, `SELECT concat_ws(' ', (SELECT string_agg(to_jsonb(s)::text, '') FROM oarlock.run_status($1) s),
			(SELECT string_agg(to_jsonb(s)::text, '') FROM oarlock.task_status($1) s))`, run)
	}
	if text := shown(app); !strings.Contains(text, `"any?"`) || strings.Contains(text, "secret") {
		t.Errorf("an approver is shown %s", text)
	}
	if text := shown(ana); strings.Count(text, "secret") < 3 {
		t.Errorf("its submitter is shown %s", text)
	}
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, grown)
		VALUES ($1, 2, 'running', 1, 1, 1, 9, '{"generation": 1, "items": [{"key": "a"}, {"key": "b"}]}')`, run)
	for conn, want := range map[*pgx.Conn]int{app: 0, ana: 2} {
		if got := get[int](t, conn, "SELECT coalesce(items, 0) FROM oarlock.task_status($1) WHERE step = 'each' AND item IS NULL", run); got != want {
			t.Errorf("it is shown %d items, want %d", got, want)
		}
	}
	if text := shown(boss); text != "" {
		t.Errorf("who decides another step is shown %s", text)
	}
	for _, foreign := range []string{
		"SELECT count(*) FROM oarlock.run_list()", "SELECT count(*) FROM oarlock.schedule_list()", "SELECT count(*) FROM oarlock.step_summaries($1)",
		"SELECT count(*) FROM oarlock.run_head($1)", "SELECT count(*) FROM oarlock.control_list($1)",
	} {
		args := []any{run}
		if !strings.Contains(foreign, "$1") {
			args = nil
		}
		if n := get[int](t, app, foreign, args...); n != 0 {
			t.Errorf("%s shows %d rows", foreign, n)
		}
	}
	if n := get[int](t, app, "SELECT count(*) FROM oarlock.run_status($1)", other); n != 0 {
		t.Error("it sees a run that waits for nobody")
	}
	wantCode(t, app, "OA007", "SELECT oarlock.approve($1, 'ok')", other)
	wantCode(t, app, "OA007", "SELECT oarlock.approve($1, 'any')", other)
	control := get[int64](t, app, `SELECT id FROM oarlock.approve($1, 'any', outputs => '{"why": "x"}')`, run)
	b.approved(t, run, 0, "approved by app")
	if text := shown(app); !strings.Contains(text, `"approved by app"`) || strings.Contains(text, "secret") {
		t.Errorf("after the decision, an approver is shown %s", text)
	}
	if text := shown(boss); text != "" {
		t.Errorf("who decides a step that has not waited is shown %s", text)
	}
	if verb := get[string](t, app, "SELECT verb FROM oarlock.control_status($1)", control); verb != "approve" {
		t.Errorf("it asked to %s", verb)
	}
	wantCode(t, app, "OA007", "SELECT oarlock.reject($1, 'any')", run)
}

// approved does what a flush does with an approval that was decided.
func (b bundle) approved(t *testing.T, run int64, step int, reason string) {
	t.Helper()
	must(t, b.conn, "DELETE FROM oarlock.approvals_open WHERE run_id = $1 AND step = $2", run, step)
	must(t, b.conn, `UPDATE oarlock.tasks SET state = 'succeeded', reason = $3, finished_at = now() WHERE run_id = $1 AND step = $2`, run, step, reason)
}

// After the decision, each user sees the run that might have decided or has decided. A refused decision shows nothing.
func TestApprover_SeesARunAfterTheDecision(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana, boss, deputy := b.user(t, "ana", "oarlock_submit"), b.user(t, "boss", "oarlock_approve"), b.user(t, "dep", "oarlock_submit")
	app, eve, reader := b.user(t, "app", "oarlock_approve"), b.user(t, "eve", "oarlock_submit"), b.user(t, "rea", "oarlock_read")
	login := func(conn *pgx.Conn) string { return get[string](t, conn, "SELECT session_user::text") }
	b.put(t, fmt.Sprintf(`{"name": "pay", "steps": [{"id": "go", "run": "x"}, {"id": "ok", "action": "approval", "with": {"approvers": [%q, %q]}}]}`, login(boss), login(deputy)))
	run, early := get[int64](t, ana, "SELECT oarlock.enqueue('pay')"), get[int64](t, ana, "SELECT oarlock.enqueue('pay')")
	b.claim(t, run)
	b.waits(t, run, 1, "ok?", []string{login(boss), login(deputy)})
	must(t, boss, `SELECT oarlock.approve($1, 'ok', outputs => '{"why": "x"}')`, run)
	b.approved(t, run, 1, "approved by boss")
	sees := func(conn *pgx.Conn, run int64) string {
		return get[string](t, conn, `SELECT concat_ws(' ', (SELECT count(*) FROM oarlock.run_status($1)),
			(SELECT reason FROM oarlock.task_status($1) WHERE step = 'ok'), (SELECT count(*) FROM oarlock.waiting_approvals()))`, run)
	}
	for _, c := range []struct {
		who  string
		conn *pgx.Conn
		want string
	}{
		{"submitter", ana, "1 approved by boss 0"},
		{"approver that decided", boss, "1 approved by boss 0"},
		{"approver that might have", deputy, "1 approved by boss 0"},
		{"approver of others", app, "0 0"},
		{"other submitter", eve, "0 0"},
		{"reader", reader, "1 approved by boss 0"},
	} {
		if got := sees(c.conn, run); got != c.want {
			t.Errorf("%s: %q, not %q", c.who, got, c.want)
		}
	}
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, reason, finished_at)
		VALUES ($1, 1, 'canceled', 0, 1, 1, 1, 'canceled by ana', now())`, early)
	must(t, boss, `SELECT oarlock.approve($1, 'ok')`, early)
	must(t, b.conn, "UPDATE oarlock.controls SET decided_at = now(), outcome = 'refused' WHERE run_id = $1", early)
	if got := sees(boss, early); got != "0 0" {
		t.Errorf("of a run that never asked it, an approver sees %q", got)
	}
}

// The question of a replacement is not kept, so only the user that decided an approval which replaced a step sees the run.
func TestApprover_SeesARunWhoseReplacementItDecided(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana, boss, app := b.user(t, "ana", "oarlock_submit"), b.user(t, "boss", "oarlock_approve"), b.user(t, "app", "oarlock_approve")
	b.put(t, `{"name": "pay", "steps": [{"id": "go", "run": "x", "on_error": [{"with": [{"action": "approval"}]}]}]}`)
	run := get[int64](t, ana, "SELECT oarlock.enqueue('pay')")
	b.claim(t, run)
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, alt, state, attempt, generation, epoch, seq, started_at, attempt_at)
		VALUES ($1, 0, 1, 'waiting', 1, 1, 1, 1, now(), now())`, run)
	must(t, b.conn, "INSERT INTO oarlock.approvals_open VALUES ($1, 0, '', 1, 'ok?', '[]', NULL, now())", run)
	must(t, boss, "SELECT oarlock.approve($1, 'go~1')", run)
	must(t, b.conn, "DELETE FROM oarlock.approvals_open")
	must(t, b.conn, "UPDATE oarlock.tasks SET state = 'succeeded', finished_at = now()")
	must(t, b.conn, "UPDATE oarlock.controls SET decided_at = now(), outcome = 'applied'")
	for conn, want := range map[*pgx.Conn]int{ana: 1, boss: 1, app: 0} {
		if n := get[int](t, conn, "SELECT count(*) FROM oarlock.run_status($1)", run); n != want {
			t.Errorf("%s sees %d runs", get[string](t, conn, "SELECT session_user::text"), n)
		}
	}
}

// A mark as succeeded needs the inputs of an approval, because steps behind it read them. A skipped or failed one has no outputs.
func TestMark_GivesAnApprovalItsInputs(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana := b.user(t, "ana", "oarlock_submit")
	b.put(t, `{"name": "pay", "steps": [{"id": "early", "action": "approval", "with": {"inputs": [{"name": "why", "required": true}, "note"]}},
		{"id": "go", "run": "x", "on_error": [{"with": [{"action": "approval"}]}]},
		{"id": "each", "foreach": {"items": ["a"]}, "action": "approval", "with": {"inputs": [{"name": "why", "required": true}]}}]}`)
	run := get[int64](t, ana, "SELECT oarlock.enqueue('pay')")
	b.claim(t, run)
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, alt, state, attempt, generation, epoch, seq, started_at, attempt_at)
		VALUES ($1, 1, 1, 'waiting', 1, 1, 1, 1, now(), now())`, run)
	must(t, b.conn, `INSERT INTO oarlock.approvals_open VALUES ($1, 1, '', 1, 'ok?', '[{"name": "why", "required": true}]', NULL, now())`, run)
	for _, c := range []struct{ code, args string }{
		{"OA013", "'early', 'succeeded'"},
		{"OA013", `'early', 'succeeded', outputs => '{"note": "x"}'`},
		{"OA013", `'early', 'succeeded', outputs => '{"why": "x", "whom": "y"}'`},
		{"OA013", `'early', 'succeeded', outputs => '{"why": 7}'`}, // it is a text
		{"", `'early', 'succeeded', outputs => '{"why": "7"}'`},
		{"", "'early', 'failed'"},
		{"", "'early', 'skipped'"},
		{"OA013", "'go~1', 'succeeded'"},
		{"", `'go~1', 'succeeded', outputs => '{"why": "x"}'`},
		{"", "'go~2', 'succeeded'"}, // the inputs of this replacement are not known
		{"OA013", "'each', 'succeeded', 'a'"},
		{"", "'each', 'succeeded'"}, // the list of all items asks for nothing
	} {
		wantCode(t, ana, c.code, fmt.Sprintf("SELECT oarlock.mark($1, %s)", c.args), run)
	}
	_, err := ana.Exec(t.Context(), "SELECT oarlock.mark($1, 'each', 'succeeded', 'a')", run)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Hint != fmt.Sprintf("it asks for why: give it with the mark (--value why=…), or approve: oarlock approve %d each/a -i why=…", run) {
		t.Errorf("it is refused with %v", err)
	}
}

// An approval of a foreach step without an item names the items that wait.
func TestApprove_NamesTheItemsThatWait(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana := b.user(t, "ana", "oarlock_submit")
	b.put(t, `{"name": "each", "steps": [{"id": "m", "foreach": {"items": ["p", "q"]}, "action": "approval", "with": {"inputs": [{"name": "ok", "required": true}]}}]}`)
	run := get[int64](t, ana, "SELECT oarlock.enqueue('each')")
	b.claim(t, run)
	wantCode(t, ana, "", "SELECT oarlock.approve($1, 'm')", run) // nothing waits yet: the driver answers
	must(t, b.conn, `INSERT INTO oarlock.approvals_open VALUES ($1, 0, 'q', 0, 'ok?', '[]', NULL, now()), ($1, 0, 'p', 0, 'ok?', '[]', NULL, now())`, run)
	for _, verb := range []string{"approve", "reject"} {
		_, err := ana.Exec(t.Context(), "SELECT oarlock."+verb+"($1, 'm')", run)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "OA013" || pg.Hint != "name the item: m/p, m/q" {
			t.Errorf("%s is refused with %v", verb, err)
		}
		wantCode(t, ana, "", "SELECT oarlock."+verb+"($1, 'm', 'p')", run)
	}
}

// An approval takes values by the types of its inputs, and a mark as succeeded does the same.
func TestApprove_TakesTypedInputs(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana := b.user(t, "ana", "oarlock_submit")
	const inputs = `["ticket", {"name": "ok", "type": "boolean"}, {"name": "n", "type": "integer", "minimum": 1, "maximum": 5}, {"name": "ratio", "type": "number"},
		{"name": "env", "enum": ["prod", "staging"], "default": "staging", "description": "Where to."}, {"name": "level", "type": "integer", "enum": [1, 2]},
		{"name": "data", "type": "json"}, {"name": "code", "max_length": 3}]`
	b.put(t, `{"name": "ship", "steps": [{"id": "ask", "action": "approval", "with": {"inputs": `+inputs+`}}]}`)
	for given, want := range map[string]string{
		`{}`: `{"env": "staging"}`,
		`{"ok": "true", "n": "3", "ratio": "1e-1", "level": "2"}`: `{"n": 3, "ok": true, "env": "staging", "level": 2, "ratio": 0.1}`,
		`{"ok": false, "n": 5, "ratio": 2, "env": "prod"}`:        `{"n": 5, "ok": false, "env": "prod", "ratio": 2}`,
		`{"data": {"a": [1]}, "comment": "fine", "ticket": ""}`:   `{"env": "staging", "data": {"a": [1]}, "ticket": "", "comment": "fine"}`,
		`{"data": "3", "n": null, "env": null}`:                   `{"env": "staging", "data": "3"}`,
		`{"ok": "maybe"}`:                                         `input ok of step ask must be true or false: the step wants it of type boolean`,
		`{"n": 6}`:                                                `input n of step ask must be 5 or less: the step wants it of type integer`,
		`{"n": "x"}`:                                              `input n of step ask must be a whole number: the step wants it of type integer`,
		`{"n": ""}`:                                               `input n of step ask must be a whole number: the step wants it of type integer`,
		`{"ratio": true}`:                                         `input ratio of step ask must be a number: the step wants it of type number`,
		`{"env": "dev"}`:                                          `input env of step ask must be one of ["prod", "staging"]: Where to.`,
		`{"level": 3}`:                                            `input level of step ask must be one of [1, 2]: the step wants it of type integer`,
		`{"ticket": 7}`:                                           `input ticket of step ask must be a text: the step wants it of type string`,
		`{"code": "abcd"}`:                                        `input code of step ask must have 3 characters or less, not 4: the step wants it of type string`,
		`{"tikcet": "x"}`:                                         `step ask asks for no input tikcet: it asks for ticket, ok, n, ratio, env, level, data, code`,
	} {
		waiting, marked := get[int64](t, ana, "SELECT oarlock.enqueue('ship')"), get[int64](t, ana, "SELECT oarlock.enqueue('ship')")
		b.claim(t, waiting)
		b.waits(t, waiting, 0, "Ship it?", nil)
		must(t, b.conn, "UPDATE oarlock.approvals_open SET inputs = $1", inputs)
		for call, run := range map[string]int64{"approve($1, 'ask', outputs => $2)": waiting, "mark($1, 'ask', 'succeeded', outputs => $2)": marked} {
			var got string
			_, err := ana.Exec(t.Context(), "SELECT oarlock."+call, run, given)
			var pg *pgconn.PgError
			switch {
			case errors.As(err, &pg) && pg.Code == "OA013":
				got = pg.Message + ": " + pg.Hint
			case err != nil:
				t.Fatal(err)
			default:
				got = get[string](t, b.conn, "SELECT args ->> 'outputs' FROM oarlock.controls WHERE run_id = $1", run)
			}
			if got != want {
				t.Errorf("%s, %s: %s, want %s", call, given, got, want)
			}
		}
	}
}

// Each role may read or change the rows as the table says.
func TestApprovals_AreTheWorkersToWriteAndNobodyElses(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	const no = "42501"
	submit, read := b.user(t, "s", "oarlock_submit"), b.user(t, "r", "oarlock_read")
	worker, admin := b.user(t, "w", "oarlock_worker"), b.user(t, "a", "oarlock_admin")
	for statement, want := range map[string][4]string{
		"SELECT * FROM oarlock.waiting_approvals()":      {"", "", "", ""},
		"SELECT count(*) FROM oarlock.approvals_open":    {no, "", "", ""},
		"UPDATE oarlock.approvals_open SET prompt = 'x'": {no, no, "", no},
		"DELETE FROM oarlock.approvals_open":             {no, no, "", no},
		"SELECT oarlock.may_decide(NULL, 'x')":           {no, no, no, no},
	} {
		for i, conn := range []*pgx.Conn{submit, read, worker, admin} {
			wantCode(t, conn, want[i], statement)
		}
	}
}

// The end of a run deletes its open approvals, and so does pruning a run.
func TestApprovals_AreGoneWithTheirRun(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	b.put(t, `{"name": "pay", "retention": {"days": 1}, "steps": [{"id": "any", "action": "approval"}]}`)
	run := get[int64](t, b.conn, "SELECT oarlock.enqueue('pay')")
	b.claim(t, run)
	must(t, b.conn, "INSERT INTO oarlock.fences SELECT worker_id, 'commit' FROM oarlock.runs WHERE run_id = $1", run)
	b.waits(t, run, 0, "any?", nil)
	must(t, b.conn, "SELECT oarlock.fail_run(r.run_id, r.claim_id, r.epoch, 'odd') FROM oarlock.runs r WHERE r.run_id = $1", run)
	if seen := waiting(t, b.conn); len(seen) > 0 {
		t.Errorf("a run that is over waits for %q", seen)
	}
	must(t, b.conn, "SET session_replication_role = replica") // skips the triggers, so that the row is left over
	must(t, b.conn, "INSERT INTO oarlock.approvals_open VALUES ($1, 0, '', 0, 'any?', '[]', NULL, now())", run)
	must(t, b.conn, "UPDATE oarlock.runs SET finished_at = now() - interval '2 days' WHERE run_id = $1", run)
	must(t, b.conn, "RESET session_replication_role")
	if runs := get[int](t, b.conn, "SELECT runs FROM oarlock.prune()"); runs != 1 {
		t.Fatalf("pruned %d runs", runs)
	}
	if left := get[int](t, b.conn, "SELECT count(*) FROM oarlock.approvals_open"); left > 0 {
		t.Errorf("%d rows are left of a run that is gone", left)
	}
}

// A guess of a run's id costs a look at the steps of its DAG: the tasks are read only of approvals that the login may decide.
func TestApprover_ReadsNoTasksOfRunsOfOthers(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	eve := b.user(t, "eve", "oarlock_submit")
	b.put(t, `{"name": "big", "steps": [{"id": "each", "foreach": {}}, {"id": "ok", "action": "approval", "with": {"approvers": ["nobody"]}}]}`)
	run := get[int64](t, b.conn, "SELECT oarlock.enqueue('big')")
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, item, state, attempt, generation, epoch, seq)
		SELECT $1::bigint, 0, 'i' || i, 'succeeded', 1, 1, 1, i FROM generate_series(1, 20000) i
		UNION ALL SELECT $1::bigint, 1, '', 'failed', 1, 1, 1, 20001`, run)
	pages := get[int](t, b.conn, "SELECT pg_relation_size('oarlock.tasks') / current_setting('block_size')::int")
	for _, statistics := range []string{"none", "fresh"} {
		if statistics == "fresh" {
			must(t, b.conn, "ANALYZE oarlock.tasks")
		}
		var plan *pgtest.Plan
		for range 2 { // catalogs are read once
			plan = pgtest.Explained(t, get[[]byte](t, eve, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT id FROM oarlock.run_status($1)", run))
		}
		if plan.Rows != 0 || plan.Buffers() > pages/2 {
			t.Errorf("statistics: %s: it is shown %v rows, and %d pages are read, where the tasks fill %d", statistics, plan.Rows, plan.Buffers(), pages)
		}
	}
}
