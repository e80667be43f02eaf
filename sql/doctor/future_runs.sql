-- Purpose: runs that never began, and that were to start at once when they were accepted, at a moment that is still to come: the server's
--          clock was ahead. What was to start later than that starts in time
-- Index: runs_queued, which has every run that is queued
-- Locks: none
SELECT count(*) AS runs, coalesce(min(r.run_at), 'epoch') AS first, coalesce(max(r.run_at), 'epoch') AS last
  FROM (SELECT r.run_at FROM oarlock.runs r
         WHERE r.state = 'queued' AND r.epoch = 0 AND r.run_at > clock_timestamp()
           AND r.created_at > clock_timestamp() + interval '2 seconds' AND r.run_at <= r.created_at + interval '1 second'
         LIMIT $1) r
