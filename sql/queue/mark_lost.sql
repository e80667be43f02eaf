-- Purpose: marks a worker as lost unless its beat moved, and leaves its fences: a connection that has to be ended first holds
--          them
-- Index: workers_pkey
-- Locks: its row in workers
UPDATE oarlock.workers w SET state = 'lost', ended_at = clock_timestamp(), hungry = 0, least = NULL, busy = 0, waiting = 0, runs = 0, replaced_by = coalesce(@by::uuid, w.replaced_by)
 WHERE w.worker_id = @worker AND w.state IN ('live', 'draining') AND (@beat::bigint IS NULL OR w.beat = @beat)
