-- Ten tasks of each run that began, from $1 to $2.
INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, reason, failure_kind, exit_code, worker, log_day, started_at,
                           attempt_at, finished_at)
SELECT r.run_id, s, CASE WHEN f THEN 'failed' ELSE 'succeeded' END, 1, 1, 1, s + 2, CASE WHEN f THEN 'exit 3' ELSE 'ran' END,
       CASE WHEN f THEN 'exit' END, CASE WHEN f THEN 3 ELSE 0 END, 'w1', current_date, r.started_at, r.started_at, r.finished_at
  FROM oarlock.runs r, generate_series(0, 9) s, LATERAL (SELECT s = 9 AND r.state = 'failed' AS f) x
 WHERE r.run_id BETWEEN $1 AND $2 AND r.epoch > 0
