-- Purpose: every life of every worker
-- Index: none
-- Locks: none
SELECT worker_id::text, pid FROM oarlock.workers
