-- Purpose: finds claims whose workers are gone without a trace, and all that the database says this one holds. While somebody holds an old
--          snapshot, all that they ever held is in the way
-- Index: runs_worker, for this worker and between those that have fences; fences_pkey
-- Locks: none
WITH own AS MATERIALIZED (
    SELECT r.run_id, r.claim_id FROM oarlock.runs r WHERE r.worker_id = @worker
)
SELECT ARRAY(SELECT r.worker_id -- one of each gap: there is a next time
               FROM (SELECT w.worker_id AS after, lead(w.worker_id, 1, 'ffffffff-ffff-ffff-ffff-ffffffffffff') OVER (ORDER BY w.worker_id) AS before
                       FROM (SELECT '00000000-0000-0000-0000-000000000000'::uuid AS worker_id UNION SELECT f.worker_id FROM oarlock.fences f) w) gap
              CROSS JOIN LATERAL (
                    SELECT r.worker_id FROM oarlock.runs r WHERE r.worker_id > gap.after AND r.worker_id < gap.before ORDER BY r.worker_id LIMIT 1) r) AS dead,
       ARRAY(SELECT o.run_id FROM own o) AS runs, ARRAY(SELECT o.claim_id FROM own o) AS claims
