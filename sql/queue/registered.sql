-- Purpose: whether a worker is there and lives
-- Index: workers_pkey
-- Locks: none
SELECT EXISTS (SELECT FROM oarlock.workers w WHERE w.worker_id = $1 AND w.state IN ('live', 'draining'))
