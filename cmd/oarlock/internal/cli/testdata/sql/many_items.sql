-- Of the three items of run 3 one succeeded, one failed and one has not begun.
INSERT INTO oarlock.tasks (run_id, step, item, state, attempt, generation, epoch, seq, grown, started_at, attempt_at, finished_at) VALUES
    (3, 0, '', 'running', 1, 1, 0, 1, '{"generation": 1, "items": [{"key": "a"}, {"key": "b"}, {"key": "c"}]}', now(), now(), NULL),
    (3, 0, 'a', 'succeeded', 1, 1, 0, 2, NULL, now(), now(), now()),
    (3, 0, 'b', 'failed', 1, 1, 0, 3, NULL, now(), now(), now());
