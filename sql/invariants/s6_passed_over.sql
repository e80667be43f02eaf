-- Purpose: S6: a run that may start does start. A row here has been due for a minute, though a worker that may serve it has
--          room and is neither quiet nor unfit. No row tells whether that worker could claim all the time, so doctor takes a
--          row for a warning
-- Index: runs_queued, once per lane; worker_offers_pkey
-- Locks: none
SELECT r.run_id, r.run_at, l.queue
  FROM oarlock.lanes l
  JOIN oarlock.runs r ON r.lane_id = l.lane_id AND r.state = 'queued' AND r.ready_at < clock_timestamp() - interval '1 minute'
  JOIN oarlock.queues q ON q.name = l.queue AND q.max_running = 0
  JOIN oarlock.dags d ON d.dag_id = r.dag_id AND d.max_active_runs = 0 AND NOT (l.keyed AND d.current_limits IS NOT NULL)
 WHERE (r.stage < 2 OR q.paused_by IS NULL AND d.paused_by IS NULL) -- a run that has begun goes on
   AND EXISTS (SELECT FROM oarlock.workers w
                WHERE w.state = 'live' AND w.hungry > 0 AND w.unfit = '' AND w.started_at < clock_timestamp() - interval '1 minute'
                  AND oarlock.quiet_since(w) IS NULL
                  AND oarlock.may_serve(w, (SELECT o.offers FROM oarlock.worker_offers o WHERE o.worker_id = w.worker_id), l))
   -- A run that came back unbegun, or was retried, keeps its old ready_at, and is left out.
   AND NOT EXISTS (SELECT FROM oarlock.events e WHERE e.run_id = r.run_id AND e.at > clock_timestamp() - interval '1 minute')
   AND NOT EXISTS (SELECT FROM oarlock.controls c WHERE c.run_id = r.run_id AND c.at > clock_timestamp() - interval '1 minute')
