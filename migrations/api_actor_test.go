package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// asActor runs a call in a transaction that names an actor, as web servers do.
func asActor(t *testing.T, conn *pgx.Conn, actor, statement string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		must(t, tx, "SELECT set_config('oarlock.actor', $1, true)", actor)
		must(t, tx, statement, args...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// recorded has each place where the name of the asking user is recorded: a call, and the query that then reads the name.
var recorded = map[string]struct{ call, read string }{
	"queue":    {"SELECT oarlock.set_queue('q', paused => true)", "SELECT paused_by FROM oarlock.queues WHERE name = 'q'"},
	"dag":      {"SELECT oarlock.set_dag('report', paused => true)", "SELECT paused_by FROM oarlock.dags WHERE name = 'report'"},
	"version":  {`SELECT oarlock.put_dag('{"name": "new", "steps": [{"id": "a"}]}', '', 'h', '{}')`, "SELECT put_by FROM oarlock.dag_versions JOIN oarlock.dags USING (dag_id) WHERE name = 'new'"},
	"drain":    {"SELECT oarlock.drain_worker('w1')", "SELECT by FROM oarlock.worker_orders"},
	"schedule": {"SELECT oarlock.pause_schedule('report', 'own')", "SELECT paused_by FROM oarlock.schedules WHERE name = 'own'"},
	"trigger":  {"SELECT oarlock.trigger_schedule('report', 'own', '2026-11-20Z')", "SELECT substr(reason, 14) FROM oarlock.fires"},
	"control":  {"SELECT oarlock.pause(1, 'load')", "SELECT by FROM oarlock.controls WHERE verb = 'pause'"},
	"cancel":   {"SELECT oarlock.cancel(2)", "SELECT by FROM oarlock.controls WHERE verb = 'cancel'"},
	"event":    {"SELECT oarlock.cancel(3)", "SELECT by FROM oarlock.events WHERE run_id = 3"},
	"reason":   {"SELECT oarlock.cancel(4)", "SELECT substr(reason, 13) FROM oarlock.runs WHERE run_id = 4"},
}

// recording has runs and a schedule of the login's to steer.
func recording(t *testing.T, roles ...string) (bundle, *pgx.Conn) {
	t.Helper()
	b := apiWithRoles(t)
	conn := b.user(t, "web", append(roles, "oarlock_admin")...)
	for range 4 {
		enqueue(t, conn)
	}
	b.claim(t, 1)
	must(t, conn, "SELECT oarlock.put_schedule('report', 'own', every => '1h', params => '{\"day\": \"x\"}')")
	return b, conn
}

func TestActor_IsRecordedForWebServers(t *testing.T) {
	t.Parallel()
	b, web := recording(t, "oarlock_web")
	login := get[string](t, web, "SELECT session_user::text")
	for name, r := range recorded {
		asActor(t, web, "ana@example.org", r.call)
		if got := get[string](t, b.conn, r.read); got != "ana@example.org via "+login {
			t.Errorf("%s: recorded %q", name, got)
		}
		if got := get[string](t, web, "SELECT oarlock.who()"); got != login {
			t.Errorf("%s: the next transaction is %q's", name, got)
		}
	}
}

func TestActor_OfOthersIsIgnored(t *testing.T) {
	t.Parallel()
	b, admin := recording(t)
	login := get[string](t, admin, "SELECT session_user::text")
	must(t, admin, "SET oarlock.actor = 'boss'")
	for name, r := range recorded {
		asActor(t, admin, "boss", r.call)
		if got := get[string](t, b.conn, r.read); got != login {
			t.Errorf("%s: %s forged %q", name, login, got)
		}
	}
	enqueue(t, admin)
	must(t, admin, `SELECT oarlock.enqueue_many('report', ARRAY['{"day": "x"}']::jsonb[])`)
	must(t, admin, "SELECT oarlock.rerun(2)")
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs WHERE actor IS NOT NULL"); n != 0 {
		t.Errorf("%d runs have an actor", n)
	}
}

func TestActor_OwnsNothing(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	web := b.user(t, "web", "oarlock_admin", "oarlock_web")
	login := get[string](t, web, "SELECT session_user::text")
	for name, call := range map[string]string{
		"enqueue":       `SELECT oarlock.enqueue('report', '{"day": "x"}')`,
		"closer look":   `SELECT oarlock.enqueue('report', '{"day": "x"}', priority => -1)`,
		"inbox":         `INSERT INTO oarlock.inbox (dag, params) VALUES ('report', '{"day": "x"}')`,
		"enqueue_many":  `SELECT oarlock.enqueue_many('report', ARRAY['{"day": "x"}']::jsonb[])`,
		"rerun":         "SELECT oarlock.rerun(1)",
		"of an old key": `SELECT oarlock.enqueue('report', '{"day": "x"}', run_key => 'k')`,
	} {
		enqueue(t, b.conn)
		must(t, b.conn, "SELECT oarlock.cancel(1)")
		asActor(t, web, "ana", call)
		if got := get[string](t, b.conn, "SELECT actor || ' of ' || submitted_by FROM oarlock.runs ORDER BY run_id DESC LIMIT 1"); got != "ana of "+login {
			t.Errorf("%s: the run is %q", name, got)
		}
		if got := get[string](t, web, "SELECT actor || ' of ' || submitted_by FROM oarlock.run_list(rows => 1)"); got != "ana of "+login {
			t.Errorf("%s: the list says %q", name, got)
		}
	}
	asActor(t, web, "bob", `SELECT oarlock.enqueue('report', '{"day": "x"}', run_key => 'k')`)
	if got := get[string](t, b.conn, "SELECT actor FROM oarlock.runs WHERE run_key = 'k'"); got != "ana" {
		t.Errorf("who asks again by a key is taken for the one who asked: %q", got)
	}
	asActor(t, web, "ana", "SELECT oarlock.put_schedule('report', 'own', every => '1h', params => '{\"day\": \"x\"}')")
	if got := get[string](t, b.conn, "SELECT owner FROM oarlock.schedules"); got != login {
		t.Errorf("the schedule is %q's", got)
	}
	asActor(t, web, "ana", `SELECT oarlock.put_dag('{"name": "nightly", "schedule": [{"name": "file", "every": "1h"}], "steps": [{"id": "a"}]}', '', 'h', '{}')`)
	asActor(t, web, "ana", "SELECT oarlock.trigger_schedule('nightly', 'file')")
	if got := get[string](t, b.conn, "SELECT concat_ws(' for ', submitted_by, actor) FROM oarlock.runs WHERE schedule = 'file'"); got != login {
		t.Errorf("the run of a file's schedule is %q's", got)
	}
}

// An approver that is not the submitter sees the outcome of its decision later, but not the actor of the control.
func TestActor_LeavesAnswersToTheLogin(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana, web, other := b.user(t, "ana", "oarlock_submit"), b.user(t, "web", "oarlock_submit", "oarlock_web"), b.user(t, "other", "oarlock_submit", "oarlock_web")
	login := get[string](t, web, "SELECT session_user::text")
	b.put(t, `{"name": "pay", "steps": [{"id": "ok", "action": "approval", "with": {"approvers": ["`+login+`"]}}]}`)
	run := get[int64](t, ana, "SELECT oarlock.enqueue('pay')")
	b.claim(t, run)
	asActor(t, web, "boss", "SELECT oarlock.approve($1, 'ok')", run)
	for query, id := range map[string]int64{
		"SELECT count(*) FROM oarlock.control_status($1)": get[int64](t, b.conn, "SELECT control_id FROM oarlock.controls"),
		"SELECT count(*) FROM oarlock.control_list($1)":   run,
	} {
		if mine, others := get[int](t, web, query, id), get[int](t, other, query, id); mine != 1 || others != 0 {
			t.Errorf("%s: the login that asked sees %d, another %d", query, mine, others)
		}
	}
	must(t, other, "SELECT set_config('oarlock.actor', $1, false)", login)
	wantCode(t, other, "OA007", "SELECT oarlock.approve($1, 'ok')", run)
}

func TestActor_TakesHostileNames(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	web := b.user(t, "web", "oarlock_submit", "oarlock_web")
	login := get[string](t, web, "SELECT session_user::text")
	for actor, want := range map[string]string{
		"":                                login,
		" \t\n ":                          login,
		"o'brien\"; DROP TABLE runs; --":  "o'brien\"; DROP TABLE runs; -- via " + login,
		"ana\ncanceled by bob":            "ana canceled by bob via " + login,
		"a\x1b[31m\u0085\u202eb":          "a [31m  b via " + login,
		"ana via postgres":                "ana via postgres via " + login,
		strings.Repeat("é", 1<<19):        strings.Repeat("é", 200) + " via " + login,
		"Ána Ørsted <ana@example.org> 🚣 ": "Ána Ørsted <ana@example.org> 🚣 via " + login,
	} {
		tx, err := web.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		must(t, tx, "SELECT set_config('oarlock.actor', $1, true)", actor)
		if got := get[string](t, tx, "SELECT oarlock.who()"); got != want {
			t.Errorf("%.40q is %.300q, want %.300q", actor, got, want)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The rights of a web server come from its other roles.
func TestActor_RoleAloneMayNothing(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	web := b.user(t, "web", "oarlock_web")
	for call := range roleCalls {
		wantCode(t, web, no, call)
	}
	wantCode(t, web, no, "SELECT oarlock.who()")
}
