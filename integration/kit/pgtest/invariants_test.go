package pgtest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// scenery has one run of each kind, all of them valid: 1 finished, 2 claimed, 3 parked, 4 queued, 5 parked with an
// approval that waits.
var scenery = []string{
	`SELECT oarlock.put_dag('{"name": "d", "steps": [{"id": "a", "run": "x"}, {"id": "b", "run": "x", "depends": ["a"]}], "handler_on": {"exit": {"run": "x"}}}', 's', 'h', '{process}')`,
	`SELECT oarlock.enqueue('d', run_key => 'k' || n) FROM generate_series(1, 4) n`,
	`WITH w AS (INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, started_at)
	 VALUES (oarlock_test.w(1), 'w', 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 30000, 'c', now() - interval '1 hour') RETURNING worker_id)
	 INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process}' FROM w`,
	`INSERT INTO oarlock.fences SELECT oarlock_test.w(1), unnest('{commit,claim,logs,settle}'::text[])`,
	`UPDATE oarlock.runs SET state = 'running', epoch = 1, claim_id = oarlock_test.w(100 + run_id), worker_id = oarlock_test.w(1), started_at = oarlock_test.at(0) WHERE run_id < 4`,
	`INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, attempt_at, finished_at, log_day)
	 SELECT n, 0, 'succeeded', 2, 1, 1, 1, oarlock_test.at(1), oarlock_test.at(2), oarlock_test.at(3), '2026-11-20' FROM generate_series(1, 3) n`,
	`INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, started_at, finished_at)
	 SELECT n, 0, '', 0, 1, 1, 'failed', oarlock_test.at(1), oarlock_test.at(2) FROM generate_series(1, 3) n`,
	`INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, attempt_at, finished_at)
	 VALUES (1, 1, 'succeeded', 1, 1, 1, 1, oarlock_test.at(3), oarlock_test.at(3), oarlock_test.at(4)), (2, 1, 'running', 1, 1, 1, 1, oarlock_test.at(3), oarlock_test.at(3), NULL),
	        (1, 2, 'skipped', 0, 1, 1, 1, NULL, NULL, oarlock_test.at(4))`,
	`INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, final)
	 SELECT '2026-11-20', 1, 0, '', 0, 2, n, 1, now(), '', n = 2 FROM generate_series(0, 2) n`,
	`UPDATE oarlock.runs SET state = 'succeeded', claim_id = NULL, worker_id = NULL, finished_at = oarlock_test.at(4) WHERE run_id = 1`,
	`UPDATE oarlock.runs SET state = 'waiting', stage = 1, claim_id = NULL, worker_id = NULL, wake_at = now() + interval '1 hour' WHERE run_id = 3`,
	`INSERT INTO oarlock.events (run_id, at, kind, epoch) VALUES (2, oarlock_test.at(5), 'lost', 0)`,
	`SELECT oarlock.put_dag('{"name": "ask", "steps": [{"id": "a", "action": "approval"}, {"id": "b", "run": "x", "depends": ["a"]}]}', 's', 'h', '{process}')`,
	`SELECT oarlock.enqueue('ask')`,
	`UPDATE oarlock.runs SET state = 'waiting', stage = 1, epoch = 1, started_at = oarlock_test.at(0) WHERE run_id = 5`,
	`INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, attempt_at) VALUES (5, 0, 'waiting', 1, 1, 1, 1, oarlock_test.at(1), oarlock_test.at(1))`,
	`INSERT INTO oarlock.approvals_open VALUES (5, 0, '', 0, 'Well?', '[]', NULL, oarlock_test.at(1))`,
}

// planted breaks the scenery in one way for each part of each invariant.
var planted = map[string][]string{
	"s1_succeeded_twice": {
		`UPDATE oarlock.attempts SET state = 'succeeded' WHERE run_id = 1`,
		`INSERT INTO oarlock.controls (run_id, step, verb, args, by, decided_at, outcome) VALUES (1, 'b', 'retry', '{"mode": "step"}', 'x', now(), 'applied');
		 UPDATE oarlock.attempts SET state = 'succeeded' WHERE run_id = 1`,
	},
	"s2_changed_after_end": {
		`INSERT INTO oarlock.controls (run_id, verb, by) VALUES (1, 'pause', 'x')`,
		`UPDATE oarlock.tasks SET generation = 2 WHERE run_id = 1 AND step = 1`,
		`UPDATE oarlock.tasks SET finished_at = oarlock_test.at(6) WHERE run_id = 1 AND step = 1`,
	},
	"s2b_claim_without_fence":  {`DELETE FROM oarlock.fences WHERE channel = 'commit'`},
	"s2b_parked_past_its_time": {`UPDATE oarlock.runs SET wake_at = now() - interval '1 minute' WHERE run_id = 3`},
	"s2b_parked_with_request":  {`INSERT INTO oarlock.controls (run_id, verb, by) VALUES (3, 'resume', 'x')`},
	"s3_claim_shared":          {`UPDATE oarlock.runs SET state = 'running', epoch = 1, claim_id = oarlock_test.w(102), worker_id = oarlock_test.w(1) WHERE run_id = 4`},
	"s3_epoch_ahead": {
		`UPDATE oarlock.tasks SET epoch = 2 WHERE run_id = 2 AND step = 0`,
		`INSERT INTO oarlock.events (run_id, kind, epoch) VALUES (2, 'x', 2)`,
		`UPDATE oarlock.runs SET state = 'running', claim_id = oarlock_test.w(104), worker_id = oarlock_test.w(1) WHERE run_id = 4`,
	},
	"s4_open_task_at_end": {
		`UPDATE oarlock.tasks SET state = 'running', finished_at = NULL WHERE run_id = 1 AND step = 1`,
		`UPDATE oarlock.tasks SET state = 'running' WHERE run_id = 1 AND step = 2`,
	},
	"s4_verdict": {
		`UPDATE oarlock.tasks SET state = 'failed' WHERE run_id = 1 AND step = 1`,
		`UPDATE oarlock.tasks SET state = 'canceled' WHERE run_id = 1 AND step = 1`,
		`UPDATE oarlock.runs SET state = 'failed' WHERE run_id = 1`,
		`UPDATE oarlock.runs SET state = 'canceled' WHERE run_id = 1`,
		`UPDATE oarlock.runs SET state = 'succeeded', finished_at = now() WHERE run_id = 4`,
	},
	"s5_started_too_early": {
		`UPDATE oarlock.tasks SET started_at = oarlock_test.at(2) WHERE run_id = 2 AND step = 1`,
		`UPDATE oarlock.tasks SET state = 'running', finished_at = NULL WHERE run_id = 2 AND step = 0`,
		`DELETE FROM oarlock.tasks WHERE run_id = 2 AND step = 0`,
	},
	"s6_owner_silent": {`INSERT INTO oarlock.workers SELECT (jsonb_populate_record(w, jsonb_build_object('worker_id', oarlock_test.w(2), 'beat_at', now() - interval '10 minutes'))).* FROM oarlock.workers w;
		INSERT INTO oarlock.worker_offers VALUES (oarlock_test.w(2), '{process}'); INSERT INTO oarlock.fences VALUES (oarlock_test.w(2), 'commit'); UPDATE oarlock.runs SET worker_id = oarlock_test.w(2) WHERE run_id = 2`},
	"s6_passed_over":        {`UPDATE oarlock.workers SET hungry = 1; UPDATE oarlock.runs SET ready_at = now() - interval '2 minutes' WHERE run_id = 4`},
	"s7_written_after_loss": {`UPDATE oarlock.events SET epoch = 1, at = oarlock_test.at(0) WHERE run_id = 2`},
	"s8_attempt_gap": {
		`DELETE FROM oarlock.attempts WHERE run_id = 1`,
		`UPDATE oarlock.attempts SET attempt = 3 WHERE run_id = 1`,
		`UPDATE oarlock.tasks SET attempt = 1, state = 'running', finished_at = NULL WHERE run_id = 3`,
	},
	"s9_approval_without_row": {
		`DELETE FROM oarlock.approvals_open`,
		`UPDATE oarlock.tasks SET state = 'succeeded', finished_at = now() WHERE run_id = 5`,
		`INSERT INTO oarlock.approvals_open VALUES (2, 1, '', 0, 'Well?', '[]', NULL, now())`,
		`INSERT INTO oarlock.approvals_open VALUES (5, 0, 'x', 0, 'Well?', '[]', NULL, now())`,
	},
	"s10_agenda_overdue": {`UPDATE oarlock.workers SET started_at = now() - interval '2 minutes', beat_at = now(); INSERT INTO oarlock.agenda (kind, id, at) VALUES ('ended', 1, now() - interval '2 minutes')`},
	"s11_fired_amiss": {
		`UPDATE oarlock.runs SET schedule_id = 1, created_at = now() WHERE run_id = 4`,
		`INSERT INTO oarlock.fires (schedule_id, logical_at, outcome, run_id) VALUES (1, now(), 'fired', 2)`,
	},
	"s12_stage":             {`UPDATE oarlock.runs SET stage = 1 WHERE run_id = 4`},
	"s13_closed_lane":       {`UPDATE oarlock.lanes SET closed = 9`, `UPDATE oarlock.runs SET lane_id = 99 WHERE run_id = 4`},
	"s14_key_over_limit":    {`UPDATE oarlock.dags SET current_limits = '[{"limit": 1}]'; UPDATE oarlock.runs SET limit_keys = '{k}', state = 'waiting', claim_id = NULL, worker_id = NULL, finished_at = NULL, epoch = 1, stage = 1, started_at = clock_timestamp() + interval '1 s'`},
	"s15_lane_without_keys": {`UPDATE oarlock.lanes SET keyed = true`, `UPDATE oarlock.runs SET limit_keys = '{k}' WHERE run_id = 4`},
	"s8_two_running":        {`UPDATE oarlock.attempts SET state = 'running', finished_at = NULL WHERE run_id = 2`},
	"g1_log_gap":            {`DELETE FROM oarlock.log_chunks WHERE seq = 1`, `DELETE FROM oarlock.log_chunks WHERE seq = 0`},
	"g2_after_the_last":     {`UPDATE oarlock.log_chunks SET final = true WHERE seq = 1`},
	"g5_lines":              {`UPDATE oarlock.log_chunks SET lines = 1 WHERE seq = 1`},
	"a1_key_twice": {
		`UPDATE oarlock.runs SET run_key = 'k1' WHERE run_id = 2`,
		`DELETE FROM oarlock.run_keys WHERE run_key = 'k4'`,
	},
}

// forge makes a database in which any row may be written.
func forge(t *testing.T) *pgx.Conn {
	t.Helper()
	conn := New(t).Conn(t)
	for _, statement := range append([]string{
		`SET session_replication_role = replica`, // triggers would refuse most of the planted rows
		`CREATE SCHEMA oarlock_test`,
		`CREATE FUNCTION oarlock_test.w(n bigint) RETURNS uuid LANGUAGE sql AS $$SELECT lpad(n::text, 32, '0')::uuid$$`,
		`CREATE FUNCTION oarlock_test.at(n int) RETURNS timestamptz LANGUAGE sql AS $$SELECT date_trunc('hour', now()) - interval '1 day' + n * interval '10 seconds'$$`,
	}, scenery...) {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return conn
}

func TestCheckInvariants_FindsNothingWhereAllIsWell(t *testing.T) {
	t.Parallel()
	CheckInvariants(t, forge(t))
	CheckInvariants(t, New(t).Conn(t))
}

func TestInvariants_EachFindsWhatBreaksIt(t *testing.T) {
	t.Parallel()
	conn := forge(t)
	names := slices.Sorted(maps.Keys(planted))
	if all := Invariants(); len(all) != len(names) {
		t.Errorf("there are %d invariants, and violations of %d", len(all), len(names))
	}
	for _, name := range names {
		for _, violation := range planted[name] {
			t.Run(name, func(t *testing.T) {
				tx, err := conn.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback(t.Context())
				for statement := range strings.SplitSeq(violation, ";") {
					if _, err := tx.Exec(t.Context(), statement); err != nil {
						t.Fatalf("%s: %v", statement, err)
					}
				}
				if broken, err := brokenBy(t.Context(), conn, invariants+name); err != nil || len(broken) != 1 || len(broken[0]) == 0 {
					t.Errorf("%s is not found: %v", violation, err)
				}
			})
		}
	}
}
