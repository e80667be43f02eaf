-- Purpose: the lanes a worker may claim from, in the order of their priority, and the terms under which that is so
-- Index: small tables, read whole; workers_pkey, worker_offers_pkey
-- Locks: none
SELECT t.terms, ARRAY(SELECT d.dag_id FROM oarlock.dags d WHERE d.paused_by IS NOT NULL OR d.max_active_runs > 0) AS held, l.lane_id, l.queue, l.priority,
       l.max_running, l.dag_id, l.max_active, l.halted
  FROM oarlock.claim_terms t
  LEFT JOIN (SELECT l.lane_id, l.queue, l.priority, q.max_running, l.dag_id, coalesce(d.max_active_runs, 0) AS max_active, q.paused_by IS NOT NULL OR d.paused_by IS NOT NULL AS halted
               FROM oarlock.workers w
               JOIN oarlock.lanes l ON (w.queues = '{}' OR l.queue = ANY (w.queues)) AND w.labels @> l.selector AND w.slots >= l.slots
                AND (SELECT o.offers FROM oarlock.worker_offers o WHERE o.worker_id = $1) @> l.needs -- read once, not once per lane
               JOIN oarlock.queues q ON q.name = l.queue -- also of a paused one: as a paused DAG it may have begun runs, which go on
               LEFT JOIN oarlock.dags d ON d.dag_id = l.dag_id
              WHERE w.worker_id = $1) l ON true
 ORDER BY l.priority DESC, l.lane_id
