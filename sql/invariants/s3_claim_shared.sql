-- Purpose: S3: a claim id belongs to one run. A row here is a claim id that several runs have
-- Index: none, it reads all claimed runs; runs_worker finds them
-- Locks: none
SELECT r.claim_id, array_agg(r.run_id ORDER BY r.run_id) AS runs
  FROM oarlock.runs r
 WHERE r.worker_id IS NOT NULL
 GROUP BY r.claim_id
HAVING count(*) > 1
