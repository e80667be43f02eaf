-- Purpose: tests of sharing: limits the runs of a queue
-- Index: queues_pkey
-- Locks: none
SELECT oarlock.set_queue($1, max_running => $2)::text
