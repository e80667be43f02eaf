-- A log without its middle piece.
INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data)
SELECT current_date, 7, 0, '', 0, 1, n, 1, now(), '' FROM (VALUES (0), (2)) s (n);
