-- Run 1 of etl failed: its task, the task's log, the run's events. A worker is at work.
UPDATE oarlock.runs SET state = 'failed', reason = 'load failed', started_at = now() - interval '10 s', finished_at = now(), queue_deadline = NULL,
       counts = '{"total": 1, "open": 0, "failed": 1}' WHERE run_id = 1;
INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, attempt_at, finished_at, log_day, reason, outputs)
SELECT 1, 0, 'failed', 1, 1, 1, 1, now() - interval '9 s', now() - interval '9 s', now(), current_date, E'exit status 1 \u009b31m', '{"rows": 12345678901234567890, "html": "<b>&"}';
INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, lines, final, reason)
VALUES (current_date, 1, 0, '', 0, 1, 0, 1, now(), convert_to(E'one <b>\ntwo', 'UTF8'), 2, false, ''),
       (current_date, 1, 0, '', 0, 1, 1, 2, now(), '\xff00', 3, false, ''),
       (current_date, 1, 0, '', 0, 1, 2, 0, now(), '', 3, true, 'failed');
INSERT INTO oarlock.events (run_id, kind, step, item, alt, worker) VALUES (1, 'lost', NULL, '', 0, 'w1');
INSERT INTO oarlock.controls (run_id, verb, by) VALUES (1, 'pause', 'ana');
INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel)
VALUES (gen_random_uuid(), 'w1', 'host<b>', 'b', 17, 'v1', '{"zone": "eu"}', '{etl}', 8, 'cgroup', 30000, 'c');
