-- Purpose: the workers at work, whether they give signs of life or not, and how many runs are due, up to so many
-- Index: none for workers, a table of a few rows; runs_queued
-- Locks: none
SELECT ARRAY(SELECT w.worker_id::text FROM oarlock.workers w WHERE w.state IN ('live', 'draining')) AS workers,
       (SELECT count(*) FROM (SELECT FROM oarlock.runs r WHERE r.state = 'queued' AND r.run_at <= clock_timestamp() LIMIT $1) d) AS due
