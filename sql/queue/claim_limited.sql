-- Purpose: claims due runs of lanes behind limits, as many as these have left
-- Index: fences_pkey, workers_pkey; lanes, queues and dags whole; runs_queued, of each shelf from its cursor on; runs_worker and runs_set_aside, for the counts; runs_pkey
-- Locks: the worker's claim fence; for each shelf with a due run the rows of its queue and its DAG, if they have limits,
--        passing over locked ones; each run it claims, passing over locked ones
SELECT true AS fenced, clock_timestamp() AS now, true AS limits, d.name, l.queue, l.priority, c.*
  FROM oarlock.claim_limited(@worker, @claims, @shelves, @cursors, @rest, @stage, @lowest, @fair, @new_first, @queues, @skip) c
  JOIN oarlock.dags d ON d.dag_id = c.dag_id
  JOIN oarlock.lanes l ON l.lane_id = c.lane_id
