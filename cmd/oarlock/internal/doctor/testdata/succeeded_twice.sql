INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state)
VALUES (7, 0, '', 0, 1, 1, 'succeeded'), (7, 0, '', 0, 2, 1, 'succeeded');
