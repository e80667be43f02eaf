-- Purpose: claims due runs of one family, whatever lanes they are in: for a worker that serves nothing else
-- Index: fences_pkey, workers_pkey; runs_pkey, runs_parent; behind a limit also runs_worker and runs_set_aside
-- Locks: the worker's claim fence; each run it claims, passing over locked ones, and before one behind a limit the rows of its queue and its DAG
SELECT true AS fenced, clock_timestamp() AS now, true AS limits, d.name, l.queue, l.priority, c.*
  FROM oarlock.claim_family(@worker, @root, @claims) c
  JOIN oarlock.dags d ON d.dag_id = c.dag_id
  JOIN oarlock.lanes l ON l.lane_id = c.lane_id
