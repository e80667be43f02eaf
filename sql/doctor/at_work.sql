-- Purpose: the workers at work, with or without signs of life, and the number of due runs, counted up to $1
-- Index: none for workers, a table of a few rows; runs_queued
-- Locks: none
SELECT ARRAY(SELECT w.worker_id::text FROM oarlock.workers w WHERE w.state IN ('live', 'draining')) AS workers,
       (SELECT count(*) FROM (SELECT FROM oarlock.runs r WHERE r.state = 'queued' AND r.run_at <= clock_timestamp() LIMIT $1) d) AS due
