-- Purpose: the reasons why no worker takes a queued run: pauses, limits that are reached, a queue or labels that no live worker
--          serves
-- Index: runs_pkey, lanes_pkey, queues_pkey, dags_pkey; where there is a limit runs_worker, runs_rare; workers is small
-- Locks: none
SELECT q.paused_by IS NOT NULL, d.paused_by IS NOT NULL,
       CASE WHEN q.max_running > 0 THEN
            CASE WHEN (SELECT count(*) FROM oarlock.runs x JOIN oarlock.lanes y USING (lane_id) WHERE x.worker_id IS NOT NULL AND y.queue = q.name) >= q.max_running
                 THEN q.max_running ELSE 0 END ELSE 0 END,
       CASE WHEN d.max_active_runs > 0 THEN
            (SELECT count(*) FROM oarlock.runs x WHERE x.dag_id = d.dag_id AND x.started_at IS NOT NULL AND x.state IN ('running', 'waiting', 'paused')) >= d.max_active_runs
            ELSE false END,
       crew.size > 0 AND crew.own = 0 AND crew.serving = 0,
       ARRAY(SELECT s.key || '=' || s.value FROM jsonb_each_text(l.selector) s
              WHERE crew.own = 0 AND NOT EXISTS (SELECT FROM oarlock.workers w WHERE w.state = 'live' AND w.labels ->> s.key = s.value)
              ORDER BY 1),
       crew.lively = 0
  FROM oarlock.runs r
  JOIN oarlock.lanes l USING (lane_id)
  JOIN oarlock.queues q ON q.name = l.queue
  JOIN oarlock.dags d ON d.dag_id = r.dag_id
 CROSS JOIN LATERAL (
       SELECT count(*) AS size, count(*) FILTER (WHERE w.queues = '{}' OR l.queue = ANY (w.queues)) AS serving,
              count(*) FILTER (WHERE w.only_run IN (r.run_id, r.parent_run, r.root_id)) AS own,
              count(*) FILTER (WHERE oarlock.quiet_since(w) IS NULL) AS lively
         FROM oarlock.workers w WHERE w.state = 'live') crew
 WHERE r.run_id = @run
