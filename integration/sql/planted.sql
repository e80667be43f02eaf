-- A valid state after a seed: run 1 asked for run 2, and logged two chunks in its second attempt.
UPDATE oarlock.runs SET parent_run = 1, parent_step = 0, parent_item = '', parent_alt = 0 WHERE run_id = 2;
INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq) VALUES (1, 0, 'waiting', 1, 1, 0, 1), (1, 1, 'running', 2, 1, 0, 2);
INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state) VALUES (1, 1, '', 0, 1, 1, 'failed');
INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data)
SELECT current_date, 1, 1, '', 0, 2, n, 1, now(), 'ab' FROM generate_series(0, 1) n;
INSERT INTO oarlock.events (run_id, kind, message) VALUES (1, 'test', 'a test');
