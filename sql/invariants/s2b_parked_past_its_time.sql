-- Purpose: S2b: no parked run sleeps past its time while a worker is there to wake it. A worker looks ten times in ten seconds
-- Index: runs_wake
-- Locks: none
SELECT r.run_id, r.wake_at
  FROM oarlock.runs r
 WHERE r.state = 'waiting' AND r.wake_at < clock_timestamp() - interval '10 seconds' AND r.claim_id IS NULL
   AND EXISTS (SELECT FROM oarlock.workers w
                WHERE w.state = 'live' AND w.started_at < clock_timestamp() - interval '10 seconds'
                  AND w.beat_at > clock_timestamp() - w.ttl_ms * interval '1 millisecond')
