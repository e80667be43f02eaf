-- Purpose: runs that never began, that were accepted at a moment still to come, and that were to start at once: the clock of
--          the server was ahead then. A run that was to start later than it was accepted starts in time, and is left out
-- Index: runs_queued, which has every run that is queued
-- Locks: none
SELECT count(*) AS runs, coalesce(min(r.run_at), 'epoch') AS first, coalesce(max(r.run_at), 'epoch') AS last
  FROM (SELECT r.run_at FROM oarlock.runs r
         WHERE r.state = 'queued' AND r.epoch = 0 AND r.run_at > clock_timestamp()
           AND r.created_at > clock_timestamp() + interval '2 seconds' AND r.run_at <= r.created_at + interval '1 second'
         LIMIT $1) r
