-- Purpose: all queues, with how many runs wait and run in each
-- Index: queues_pkey; runs_queued by lane and stage, and runs_worker, over the runs that wait and run
-- Locks: none
SELECT q.name, q.paused_by, q.paused_at, q.max_running, q.max_queued, waiting.runs, waiting.oldest_ms, coalesce(claimed.runs, 0)
  FROM oarlock.queues q
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(due.runs), 0)::bigint AS runs,
              coalesce(extract(epoch FROM clock_timestamp() - min(due.oldest)) * 1000, 0)::bigint AS oldest_ms
         FROM oarlock.lanes l CROSS JOIN generate_series(0, 2) s (stage)
        CROSS JOIN LATERAL (
              SELECT count(*) AS runs, min(r.run_at) AS oldest
                FROM oarlock.runs r
               WHERE r.lane_id = l.lane_id AND r.stage = s.stage AND r.state = 'queued' AND r.ready_at <= statement_timestamp()) due
        WHERE l.queue = q.name) waiting
  LEFT JOIN (
       SELECT l.queue, count(*) AS runs
         FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id)
        WHERE r.worker_id IS NOT NULL GROUP BY l.queue) claimed ON claimed.queue = q.name
 ORDER BY q.name
