-- Purpose: one of those that a job of River waits for is done: how many are left. Only benchmarks send it
-- Index: river_job_pkey
-- Locks: the job's row
UPDATE oarlock_river.river_job SET metadata = jsonb_set(metadata, '{left}', to_jsonb((metadata ->> 'left')::int - 1))
 WHERE id = $1 RETURNING (metadata ->> 'left')::int
