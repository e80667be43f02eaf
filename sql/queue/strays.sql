-- Purpose: finds workers that are gone without a trace but for the runs they hold, and all that the database says this one holds. While somebody
--          holds an old snapshot, all that they ever held is in the way
-- Index: runs_worker, for this worker and between those that have fences; fences_pkey
-- Locks: none
WITH RECURSIVE own AS MATERIALIZED (
    SELECT r.run_id, r.claim_id FROM oarlock.runs r WHERE r.worker_id = @worker
), gap AS ( -- between those that have fences, so that nobody passes over all they ever held
    SELECT w.worker_id AS after, lead(w.worker_id, 1, 'ffffffff-ffff-ffff-ffff-ffffffffffff') OVER (ORDER BY w.worker_id) AS before
      FROM (SELECT '00000000-0000-0000-0000-000000000000'::uuid AS worker_id UNION SELECT f.worker_id FROM oarlock.fences f) w
), holder (before, worker_id) AS ( -- from one to the next by jumps through the index
    SELECT g.before, (SELECT r.worker_id FROM oarlock.runs r WHERE r.worker_id > g.after AND r.worker_id < g.before ORDER BY r.worker_id LIMIT 1)
      FROM gap g
    UNION ALL
    SELECT h.before, (SELECT r.worker_id FROM oarlock.runs r WHERE r.worker_id > h.worker_id AND r.worker_id < h.before ORDER BY r.worker_id LIMIT 1)
      FROM holder h WHERE h.worker_id IS NOT NULL
)
SELECT ARRAY(SELECT h.worker_id FROM holder h WHERE h.worker_id IS NOT NULL) AS dead,
       ARRAY(SELECT o.run_id FROM own o) AS runs, ARRAY(SELECT o.claim_id FROM own o) AS claims
