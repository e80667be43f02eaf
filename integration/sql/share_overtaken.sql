-- Purpose: tests of sharing: how many items of $1 started while the run $2 waited, 200 ms after it was asked for
-- Index: none: a few rows
-- Locks: none
SELECT count(*) FROM oarlock.tasks i, oarlock.runs r JOIN oarlock.tasks u USING (run_id)
 WHERE i.run_id = $1 AND r.run_id = $2 AND i.attempt_at > r.created_at + interval '200 ms' AND i.attempt_at < u.attempt_at
