-- Purpose: the claims of a worker as the database has them
-- Index: runs_worker
-- Locks: none
SELECT r.claim_id FROM oarlock.runs r WHERE r.worker_id = $1
