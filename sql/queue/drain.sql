-- Purpose: marks a worker as draining: it claims nothing more
-- Index: workers_pkey
-- Locks: its row in workers
UPDATE oarlock.workers w SET state = 'draining', hungry = 0, least = NULL WHERE w.worker_id = $1 AND w.state IN ('live', 'draining')
