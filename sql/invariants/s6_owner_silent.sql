-- Purpose: S6: nobody holds a run for good who is silent, while others are there to take it. Ten times its TTL is far past what a takeover needs
-- Index: runs_worker, workers_pkey
-- Locks: none
SELECT r.run_id, r.worker_id, w.beat_at
  FROM oarlock.runs r
  JOIN oarlock.workers w USING (worker_id)
 WHERE w.beat_at < clock_timestamp() - 10 * w.ttl_ms * interval '1 millisecond'
   AND EXISTS (SELECT FROM oarlock.workers o
                WHERE o.state = 'live' AND o.beat_at > clock_timestamp() - o.ttl_ms * interval '1 millisecond'
                  AND o.started_at < clock_timestamp() - 10 * w.ttl_ms * interval '1 millisecond')
