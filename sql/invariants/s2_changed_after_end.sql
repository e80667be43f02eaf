-- Purpose: S2: nothing changes in a finished run. A row here is a finished run with an undecided control, or with a task that
--          is later than the end of the run. CHECK constraints cover its claim and its timers
-- Index: runs_finished and tasks_pkey where they help; it reads all finished runs
-- Locks: none
SELECT r.run_id, r.state, r.finished_at, x.what
  FROM oarlock.runs r
 CROSS JOIN LATERAL (
       SELECT 'has an undecided control ' || c.control_id AS what FROM oarlock.controls c WHERE c.run_id = r.run_id AND c.decided_at IS NULL
       UNION ALL
       -- There is a second of slack, because the database may end a task that a driver started, and the clocks may differ a little.
       SELECT format('step %s %s~%s is later', t.step, t.item, t.alt) FROM oarlock.tasks t
        WHERE t.run_id = r.run_id AND (t.generation > r.generation OR greatest(t.started_at, t.attempt_at, t.finished_at) > r.finished_at + interval '1 second')
       ) x
 WHERE r.finished_at IS NOT NULL
