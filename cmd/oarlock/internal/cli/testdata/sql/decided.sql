-- The only run failed after its approval was given.
INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, failure_kind, exit_code, started_at, finished_at)
SELECT r.run_id, s.step, s.state, 1, 1, 1, s.step + 1, s.failure, s.exit_code, now(), now()
  FROM oarlock.runs r, (VALUES (0, 'succeeded', NULL, NULL), (1, 'failed', 'exit', 1)) s (step, state, failure, exit_code);
UPDATE oarlock.runs SET state = 'failed', epoch = 1, queue_deadline = NULL, started_at = now(), finished_at = now();
