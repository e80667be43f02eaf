package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// may has the SQLSTATE of a call for each role; "": the call works.
type may struct{ submit, read, approve, worker, admin string }

const no = "42501"

// roleCalls has the calls with their result for each role. Run 1 belongs to the administrator, run 2 to the submitter.
var roleCalls = map[string]may{
	`INSERT INTO oarlock.inbox (dag, params) VALUES ('report', '{"day": "x"}')`:                     {"", no, no, "", ""},
	`SELECT oarlock.enqueue('report', '{"day": "x"}')`:                                              {"", no, no, "", ""},
	`SELECT oarlock.enqueue_many('report', ARRAY['{"day": "x"}']::jsonb[])`:                         {"", no, no, "", ""},
	"SELECT * FROM oarlock.inbox":                                                                   {"", "", no, "", ""},
	"SELECT * FROM oarlock.error_codes":                                                             {"", "", "", "", ""},
	"SELECT * FROM oarlock.run_status(1)":                                                           {"", "", "", "", ""},
	"SELECT * FROM oarlock.task_status(1)":                                                          {"", "", "", "", ""},
	"SELECT * FROM oarlock.run_events(1, 0, 10)":                                                    {"", "", no, "", ""},
	"SELECT * FROM oarlock.run_attempts(1)":                                                         {"", "", no, "", ""},
	"SELECT * FROM oarlock.read_log(1, 'load')":                                                     {"", "", no, "", ""},
	"SELECT * FROM oarlock.run_list()":                                                              {"", "", "", "", ""},
	"SELECT * FROM oarlock.control_list(1)":                                                         {"", "", "", "", ""},
	"SELECT * FROM oarlock.waiting_approvals()":                                                     {"", "", "", "", ""},
	"SELECT count(*) FROM oarlock.approvals_open":                                                   {no, "", no, "", ""},
	"SELECT * FROM oarlock.run_result(1)":                                                           {"", "", no, "", ""},
	"SELECT * FROM oarlock.control_status(1)":                                                       {"", "", "", "", ""},
	"SELECT * FROM oarlock.pause(1)":                                                                {"OA007", no, no, "", ""},
	"SELECT * FROM oarlock.resume(1)":                                                               {"OA007", no, no, "", ""},
	"SELECT * FROM oarlock.retry(1)":                                                                {"OA007", no, no, "", ""},
	"SELECT * FROM oarlock.approve(1, 'confirm')":                                                   {"OA007", no, "OA007", "", ""},
	"SELECT * FROM oarlock.reject(1, 'confirm')":                                                    {"OA007", no, "OA007", "", ""},
	"SELECT * FROM oarlock.mark(1, 'load', 'failed')":                                               {"OA007", no, no, "", ""},
	"SELECT * FROM oarlock.cancel(1, 'load')":                                                       {"OA007", no, no, "", ""},
	"SELECT * FROM oarlock.scale_hint()":                                                            {no, "", no, "", ""},
	"SELECT oarlock.set_queue('q')":                                                                 {no, no, no, no, ""},
	"SELECT oarlock.set_dag('report', paused => false)":                                             {no, no, no, no, ""},
	"SELECT oarlock.drain_worker('w')":                                                              {no, no, no, no, ""},
	"SELECT oarlock.prune()":                                                                        {no, no, no, no, ""},
	"SELECT oarlock.make_log_days(3)":                                                               {no, no, no, "", no},
	"SELECT oarlock.wake(1, 1)":                                                                     {no, no, no, "", no},
	"SELECT oarlock.end_backends(gen_random_uuid())":                                                {no, no, no, "", no},
	`SELECT oarlock.enqueue_child(1, 1, '', 0, 1, 1, 'report', '{"day": "x"}')`:                     {no, no, no, "", no},
	"SELECT oarlock.insert_checked(1, NULL, now())":                                                 {no, no, no, no, no},
	"SELECT oarlock.take_key(1, 'x', 'k', '')":                                                      {no, no, no, no, no},
	"SELECT oarlock.request_control(1, NULL, NULL, 'cancel', '{}')":                                 {no, no, no, no, no},
	"SELECT oarlock.reopen(r) FROM oarlock.runs r":                                                  {no, no, no, no, no},
	"SELECT oarlock.prune_runs(1)":                                                                  {no, no, no, no, no},
	"SELECT count(*) FROM oarlock.runs":                                                             {no, "", no, "", ""},
	"SELECT count(*) FROM oarlock.tasks":                                                            {no, "", no, "", ""},
	"SELECT count(*) FROM oarlock.dag_versions":                                                     {no, "", no, "", ""},
	"SELECT count(*) FROM oarlock.log_chunks":                                                       {no, "", no, "", ""},
	"SELECT count(*) FROM oarlock_river.river_job":                                                  {no, no, no, "", no},
	"DELETE FROM oarlock.fences":                                                                    {no, no, no, "", no},
	"DELETE FROM oarlock.runs":                                                                      {no, no, no, no, no},
	"UPDATE oarlock.dag_versions SET spec = '{}'":                                                   {no, no, no, no, no},
	"UPDATE oarlock.worker_offers SET offers = '{}'":                                                {no, no, no, no, no},
	"DELETE FROM oarlock.worker_offers":                                                             {no, no, no, no, no},
	"UPDATE oarlock.runs SET reason = reason":                                                       {no, no, no, "", no},
	"UPDATE oarlock.queues SET max_queued = 0":                                                      {no, no, no, no, no},
	"SELECT * FROM oarlock.identity()":                                                              {"", "", "", "", ""},
	"SELECT oarlock.cron_times('@daily')":                                                           {"", "", no, "", ""},
	"SELECT oarlock.who()":                                                                          {"", "", "", "", ""},
	"SELECT oarlock.actor()":                                                                        {no, no, no, no, no},
	"SELECT oarlock.make_timing('@daily')":                                                          {no, no, no, no, no},
	"SELECT oarlock.next_time(NULL, now())":                                                         {no, no, no, no, no},
	"SELECT oarlock.vouch()":                                                                        {no, no, no, "", no},
	"SELECT oarlock.place()":                                                                        {no, no, no, no, no},
	"SELECT oarlock.adopt(gen_random_uuid(), true)":                                                 {no, no, no, no, no},
	"SELECT oarlock.end_foreign(r, '') FROM oarlock.runs r":                                         {no, no, no, no, no},
	"UPDATE oarlock.installation SET served_at = NULL":                                              {no, no, no, no, no},
	"SELECT oarlock.attend('-infinity', 1)":                                                         {no, no, no, "", no},
	"SELECT oarlock.put_schedule('report', 'x', every => '1h', params => '{\"day\": \"x\"}')":       {"OA005", no, no, no, ""},
	"SELECT oarlock.put_schedules('[]')":                                                            {"", no, no, no, ""},
	"SELECT oarlock.pause_schedule('report', 'none')":                                               {"OA016", no, no, no, "OA016"},
	"SELECT oarlock.resume_schedule('report', 'none')":                                              {"OA016", no, no, no, "OA016"},
	"SELECT oarlock.drop_schedule('report', 'none')":                                                {"OA016", no, no, no, "OA016"},
	"SELECT oarlock.trigger_schedule('report', 'none')":                                             {"OA016", no, no, no, "OA016"},
	"SELECT oarlock.backfill('report', 'none', '2026-01-01Z', '2026-01-02Z')":                       {"OA016", no, no, no, "OA016"},
	"SELECT oarlock.backfill_times('report', 'none', '2026-01-01Z', '2026-01-02Z')":                 {"OA016", no, no, no, "OA016"},
	"SELECT oarlock.schedule_list()":                                                                {"", "", "", "", ""},
	"SELECT oarlock.schedule_fires('report', 'none')":                                               {"OA016", "OA016", no, "OA016", "OA016"},
	"SELECT oarlock.schedule_times('report', 'none')":                                               {"OA016", "OA016", no, "OA016", "OA016"},
	"SELECT count(*) FROM oarlock.schedules":                                                        {no, "", no, "", ""},
	"SELECT count(*) FROM oarlock.fires":                                                            {no, "", no, "", ""},
	"UPDATE oarlock.agenda SET at = now()":                                                          {no, no, no, no, no},
	"UPDATE oarlock.schedules SET decided_at = now()":                                               {no, no, no, no, no},
	"SELECT oarlock.make_run(s, d, now(), 'schedule', '') FROM oarlock.schedules s, oarlock.dags d": {no, no, no, no, no},
	"SELECT oarlock.set_pool('heavy', slots => 1)":                                                  {no, no, no, no, ""},
	"SELECT oarlock.set_pool_key('crm', 'k', slots => 1)":                                           {no, no, no, no, ""},
	"SELECT oarlock.close_pool('crm')":                                                              {no, no, no, no, ""},
	"SELECT oarlock.open_pool('crm')":                                                               {no, no, no, no, ""},
	"SELECT oarlock.remove_pool('none')":                                                            {no, no, no, no, "OA013"},
	"SELECT * FROM oarlock.pool_list()":                                                             {no, "", no, "", ""},
	"SELECT * FROM oarlock.pool_permits('crm')":                                                     {no, "", no, "", ""},
	"SELECT oarlock.permits(gen_random_uuid(), 1, '[]')":                                            {no, no, no, "", no},
	"SELECT oarlock.why_no_permit(gen_random_uuid(), 1)":                                            {no, no, no, no, no},
	"SELECT oarlock.pool_state('crm', '')":                                                          {no, no, no, no, no},
	"SELECT oarlock.lock_pool('crm')":                                                               {no, no, no, no, no},
	"SELECT oarlock.prune_pool_keys(1)":                                                             {no, no, no, no, no},
	"SELECT count(*) FROM oarlock.pools":                                                            {no, "", no, "", ""},
	"SELECT count(*) FROM oarlock.pool_keys":                                                        {no, "", no, "", ""},
	"SELECT count(*) FROM oarlock.permits":                                                          {no, "", no, "", ""},
	"SELECT count(*) FROM oarlock.permit_calls":                                                     {no, no, no, no, no},
	"UPDATE oarlock.permits SET granted_at = now()":                                                 {no, no, no, no, no},
	"UPDATE oarlock.pools SET slots = 9":                                                            {no, no, no, no, no},
	"CREATE TABLE oarlock.mine (x int)":                                                             {no, no, no, no, no},
	"SELECT oarlock.put_dag('{\"name\": \"x\", \"steps\": [{\"id\": \"a\"}]}', '', 'h', '{}')":      {no, no, no, no, ""},
}

func TestRoles_EachMayDoItsPartAndNoMore(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	admin, submit, read, worker := b.user(t, "ad", "oarlock_admin"), b.user(t, "su", "oarlock_submit"), b.user(t, "re", "oarlock_read"), b.user(t, "wo", "oarlock_worker")
	approve, nobody := b.user(t, "ap", "oarlock_approve"), b.user(t, "no")
	enqueue(t, admin)
	enqueue(t, submit)
	must(t, b.conn, "SELECT oarlock.set_pool('crm', slots => 1, per_key => true)")
	for call, want := range roleCalls {
		wantCode(t, submit, want.submit, call)
		wantCode(t, read, want.read, call)
		wantCode(t, approve, want.approve, call)
		wantCode(t, worker, want.worker, call)
		wantCode(t, admin, want.admin, call)
		wantCode(t, nobody, no, call)
	}
	wantCode(t, submit, "55000", "UPDATE oarlock.inbox SET priority = 3")
	wantCode(t, submit, "55000", "DELETE FROM oarlock.inbox")
	if granted := get[int](t, b.conn, `SELECT count(*) FROM pg_proc p WHERE pronamespace = 'oarlock'::regnamespace
		AND (has_function_privilege('oarlock_submit', p.oid, 'EXECUTE') OR has_function_privilege('oarlock_approve', p.oid, 'EXECUTE')) AND NOT p.prosecdef`); granted != 0 {
		t.Errorf("submitters and approvers may call %d functions that are not security definer", granted)
	}
}

// The grants to approvers are listed here once more, so that no change grants them another function unnoticed.
func TestApprovers_MayCallTheseAndReadNoTable(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	calls := b.list(t, `SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'oarlock'::regnamespace
		AND has_function_privilege('oarlock_approve', p.oid, 'EXECUTE') ORDER BY 1`)
	if want := strings.Fields("approve control_list control_status identity reject run_head run_list run_page run_status schedule_list sees_all step_summaries task_status waiting_approvals who"); !slices.Equal(calls, want) {
		t.Errorf("approvers may call %v, not %v", calls, want)
	}
	reads := b.list(t, `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname LIKE 'oarlock%' AND c.relkind IN ('r', 'v', 'p', 'm')
		AND (has_any_column_privilege('oarlock_approve', c.oid, 'SELECT, INSERT, UPDATE') OR has_table_privilege('oarlock_approve', c.oid, 'DELETE, TRUNCATE')) ORDER BY 1`)
	if want := []string{"error_codes", "schema_history"}; !slices.Equal(reads, want) {
		t.Errorf("approvers may use %v, not %v", reads, want)
	}
}

func TestSubmitter_SeesAndControlsItsOwnRunsOnly(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana, bob := b.user(t, "ana", "oarlock_submit"), b.user(t, "bob", "oarlock_submit")
	reader := b.user(t, "reader", "oarlock_read")
	run := enqueue(t, ana)
	keyed := get[int64](t, ana, `SELECT oarlock.enqueue('report', '{"day": "x"}', run_key => 'same')`)
	if other := get[int64](t, bob, `SELECT oarlock.enqueue('report', '{"day": "y"}', run_key => 'same')`); other == keyed {
		t.Error("two submitters share a key")
	}
	control := get[int64](t, ana, "SELECT id FROM oarlock.pause($1)", run)
	for _, query := range []string{
		"SELECT count(*) FROM oarlock.inbox WHERE run_id = $1",
		"SELECT count(*) FROM oarlock.run_status($1)",
		"SELECT count(*) FROM oarlock.task_status($1) WHERE step = 'load'",
		"SELECT count(*) FROM oarlock.run_result($1)",
	} {
		if mine, others, readers := get[int](t, ana, query, run), get[int](t, bob, query, run), get[int](t, reader, query, run); mine != 1 || others != 0 || readers != 1 {
			t.Errorf("%s: the submitter sees %d, another %d, a reader %d", query, mine, others, readers)
		}
	}
	if n := get[int](t, bob, "SELECT count(*) FROM oarlock.control_status($1)", control); n != 0 {
		t.Error("another submitter sees a control")
	}
	_, foreign := bob.Exec(t.Context(), "SELECT oarlock.cancel($1)", run)
	_, unknown := bob.Exec(t.Context(), "SELECT oarlock.cancel(777777)")
	if foreign == nil || unknown == nil || strings.Replace(foreign.Error(), ints([]int64{run})[0], "777777", 1) != unknown.Error() {
		t.Errorf("one can tell another's run from none: %v, %v", foreign, unknown)
	}
	must(t, bob, "CREATE FUNCTION pg_temp.leak(bigint) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN IF $1 = 1 THEN RAISE 'leaked'; END IF; RETURN true; END $$")
	wantCode(t, bob, "", "SELECT run_id FROM oarlock.inbox WHERE pg_temp.leak(run_id)")
}

func TestSubmitter_CannotBorrowAnIdentity(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana, bob := b.user(t, "ana", "oarlock_submit"), b.user(t, "bob", "oarlock_submit")
	run := enqueue(t, ana)
	name := get[string](t, ana, "SELECT session_user::text")
	wantCode(t, bob, "42501", "SET ROLE "+name)
	wantCode(t, bob, "42501", "SET SESSION AUTHORIZATION "+name)
	must(t, b.conn, "GRANT "+name+" TO "+get[string](t, bob, "SELECT session_user::text"))
	must(t, bob, "SET ROLE "+name)
	wantCode(t, bob, "OA007", "SELECT oarlock.cancel($1)", run)
}

func TestSubmitter_CannotPutItsOwnTablesInTheWay(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	eve := b.user(t, "eve", "oarlock_submit")
	run := enqueue(t, b.conn)
	for _, statement := range []string{
		"CREATE TEMP TABLE pg_roles AS SELECT r.oid, 'oarlock_admin'::name AS rolname FROM pg_catalog.pg_roles r WHERE r.rolname = session_user",
		"CREATE TEMP TABLE runs (run_id bigint, submitted_by text, finished_at timestamptz)",
		"CREATE TEMP TABLE pg_namespace AS SELECT oid, 'oarlock'::name AS nspname, session_user::regrole::oid AS nspowner FROM pg_catalog.pg_namespace LIMIT 1",
		"CREATE FUNCTION pg_temp.pg_has_role(name, oid, text) RETURNS bool LANGUAGE sql AS 'SELECT true'",
		"CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT timestamptz ''1970-01-01Z'''",
		"SET search_path = pg_temp, pg_catalog",
		"SET oarlock.touched = ',999999999:1,1:1,x'",
	} {
		must(t, eve, statement)
	}
	wantCode(t, eve, "OA007", "SELECT oarlock.cancel($1)", run)
	if n := get[int](t, eve, "SELECT count(*) FROM oarlock.inbox"); n != 0 {
		t.Errorf("sees %d runs of others", n)
	}
	wantCode(t, eve, "", `INSERT INTO oarlock.inbox (dag, params) VALUES ('report', '{"day": "x"}')`)
	if !get[bool](t, b.conn, "SELECT created_at > now() - interval '1 hour' FROM oarlock.runs WHERE submitted_by LIKE 'eve%'") {
		t.Error("the clock was replaced")
	}
	pinned := b.list(t, `SELECT p.oid::regprocedure::text FROM pg_proc p WHERE pronamespace = 'oarlock'::regnamespace AND p.prosecdef
		AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)`)
	if len(pinned) > 0 {
		t.Errorf("security definer without a pinned search_path: %v", pinned)
	}
}

// Any role can NOTIFY and take advisory locks. Neither decides anything.
func TestForeignersCanOnlyMakeNoise(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	eve := b.user(t, "eve")
	run := enqueue(t, b.conn)
	b.claim(t, run)
	must(t, eve, "SELECT pg_notify('oarlock_test_1', 'run:1'), pg_notify('oarlock_test_1', 'lane:1'), pg_notify('oarlock_test_1', 'drain')")
	must(t, eve, "SELECT pg_advisory_lock(n) FROM generate_series(-100, 1000) n")
	must(t, eve, "SELECT pg_advisory_lock(hashtextextended('oarlock.make_log_days', 0))")
	before := b.state(t, run)
	must(t, b.conn, "SET lock_timeout = '5s'")
	enqueue(t, b.conn)
	if made := get[int](t, b.conn, "SELECT oarlock.make_log_days(6)"); made < 3 { // more where midnight has gone by
		t.Errorf("made %d days, want 3", made)
	}
	wantCode(t, b.conn, "", "SELECT oarlock.prune()")
	wantCode(t, b.conn, "", "SELECT oarlock.cancel($1)", run)
	if after := b.state(t, run); strings.Replace(before, "inbox 0", "inbox 1", 1) != after {
		t.Errorf("run was %q, is %q", before, after)
	}
}

func TestApprove_IsForThoseItNames(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana, boss, eve := b.user(t, "ana", "oarlock_submit"), b.user(t, "boss", "oarlock_submit"), b.user(t, "eve", "oarlock_submit")
	b.put(t, `{"name": "pay", "steps": [{"id": "ok", "action": "approval", "with": {"approvers": ["`+get[string](t, boss, "SELECT session_user::text")+`", "nobody"]}}]}`)
	run := get[int64](t, ana, "SELECT oarlock.enqueue('pay')")
	wantCode(t, ana, "OA008", "SELECT oarlock.approve($1, 'ok')", run)
	wantCode(t, eve, "OA007", "SELECT oarlock.approve($1, 'ok')", run)
	wantCode(t, boss, "", "SELECT oarlock.reject($1, 'ok')", run)
	wantCode(t, boss, "", "SELECT oarlock.approve($1, 'ok')", run)
	wantCode(t, boss, "OA007", "SELECT oarlock.cancel($1)", run)
}

// An approver of a replacement may not decide the step that it replaces, and the other way round.
func TestApprove_OfAReplacementIsForThoseItNames(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	ana, bob, cem := b.user(t, "ana", "oarlock_submit"), b.user(t, "bob", "oarlock_submit"), b.user(t, "cem", "oarlock_submit")
	name := func(db querier) string { return get[string](t, db, "SELECT session_user::text") }
	b.put(t, fmt.Sprintf(`{"name": "ship", "steps": [
		{"id": "ship", "run": "true", "on_error": [{"do": "replace", "with": [{"action": "approval", "with": {"approvers": [%[1]q]}}]}]},
		{"id": "both", "run": "true", "on_error": [{"do": "replace", "with": [{"run": "false"}, {"action": "approval", "with": {"approvers": [%[1]q]}}]}]},
		{"id": "deep", "run": "true", "on_error": [{"do": "replace", "with": [
			{"run": "false", "on_error": [{"do": "replace", "with": [{"action": "approval", "with": {"approvers": [%[1]q]}}]}]}]}]},
		{"id": "ok", "action": "approval", "with": {"approvers": [%[2]q], "inputs": [{"name": "why", "required": true}]}, "on_error": [
			{"do": "replace", "with": [{"action": "approval", "with": {"approvers": [%[1]q]}}]}]},
		{"id": "again", "action": "approval", "with": {"approvers": [%[2]q]}, "on_error": [{"do": "replace", "with": [{"timeout": "1h"}]}]}]}`,
		name(bob), name(cem)))
	run := get[int64](t, ana, "SELECT oarlock.enqueue('ship')")
	b.claim(t, run)
	for call, want := range map[string]struct{ ana, bob, cem string }{
		"mark($1, 'ship', 'succeeded')":                              {"OA008", "OA007", "OA007"}, // would keep the approval from being asked
		"approve($1, 'ship')":                                        {"", "OA007", "OA007"},
		"cancel($1, 'ship')":                                         {"", "OA007", "OA007"},
		"mark($1, 'ship~1', 'succeeded')":                            {"OA008", "", "OA007"},
		"approve($1, 'ship~1')":                                      {"OA008", "", "OA007"},
		"mark($1, 'both~1', 'succeeded')":                            {"OA008", "OA007", "OA007"},
		"reject($1, 'both~2')":                                       {"OA008", "", "OA007"},
		"approve($1, 'deep~2')":                                      {"OA008", "", "OA007"},
		"mark($1, 'deep', 'failed')":                                 {"OA008", "OA007", "OA007"},
		"mark($1, 'ok', 'succeeded', outputs => '{\"why\": \"x\"}')": {"OA008", "OA007", ""},
		"reject($1, 'ok')":                                           {"OA008", "OA007", ""},
		"approve($1, 'ok')":                                          {"OA008", "OA007", "OA013"},
		"approve($1, 'ok~0')":                                        {"OA008", "OA007", "OA013"},
		"mark($1, 'ok~00', 'failed')":                                {"OA008", "OA007", ""},
		"approve($1, 'ok~1')":                                        {"OA008", "", "OA007"},
		"approve($1, 'ok~01')":                                       {"OA008", "", "OA007"},
		"approve($1, 'again~1')":                                     {"OA008", "OA007", ""},
		"mark($1, 'again~1', 'succeeded')":                           {"OA008", "OA007", ""},
	} {
		wantCode(t, ana, want.ana, "SELECT oarlock."+call, run)
		wantCode(t, bob, want.bob, "SELECT oarlock."+call, run)
		wantCode(t, cem, want.cem, "SELECT oarlock."+call, run)
		if strings.HasPrefix(call, "mark") { // operators may always
			wantCode(t, b.conn, "", "SELECT oarlock."+call, run)
		}
	}
}
