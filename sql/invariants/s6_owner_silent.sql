-- Purpose: S6: a silent worker does not keep its runs while other workers are there to take them over. A row here is a run of a
--          worker that has been silent for ten times its TTL, far longer than a takeover needs
-- Index: runs_worker, workers_pkey
-- Locks: none
SELECT r.run_id, r.worker_id, w.beat_at
  FROM oarlock.runs r
  JOIN oarlock.workers w USING (worker_id)
 WHERE w.beat_at < clock_timestamp() - 10 * w.ttl_ms * interval '1 millisecond'
   AND EXISTS (SELECT FROM oarlock.workers o
                WHERE o.state = 'live' AND o.beat_at > clock_timestamp() - o.ttl_ms * interval '1 millisecond'
                  AND o.started_at < clock_timestamp() - 10 * w.ttl_ms * interval '1 millisecond')
