-- Purpose: records that a worker has left in good order, and deletes its fences
-- Index: fences_pkey, workers_pkey
-- Locks: its fences, then its row in workers
WITH taken AS (
    DELETE FROM oarlock.fences f WHERE f.worker_id = $1 RETURNING f.channel
)
UPDATE oarlock.workers w SET state = 'gone', ended_at = clock_timestamp(), hungry = 0, least = NULL, busy = 0, waiting = 0, runs = 0
 WHERE w.worker_id = $1 AND w.state IN ('live', 'draining') AND (SELECT count(*) FROM taken) >= 0
