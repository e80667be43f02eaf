-- Purpose: queues the runs of a worker that has no fence any more, before new runs. It is a statement of its own after
--          queue/lose: in one statement with it, it would miss a claim that was in flight
-- Index: runs_worker, fences_pkey, runs_pkey
-- Locks: the runs in the order of their ids, passing over runs that another session holds, which the next sweep finds
WITH orphan AS MATERIALIZED (
    SELECT r.run_id FROM oarlock.runs r
     WHERE r.worker_id = @worker AND NOT EXISTS (SELECT FROM oarlock.fences f WHERE f.worker_id = @worker)
     ORDER BY r.run_id + 0 LIMIT @batch FOR NO KEY UPDATE SKIP LOCKED -- + 0: in the order of the key, the plan would go through all runs there are
), queued AS (
    UPDATE oarlock.runs r SET state = 'queued', claim_id = NULL, worker_id = NULL, losses = r.losses + 1, stage = 0, ready_at = clock_timestamp()
     WHERE r.run_id = ANY (ARRAY(SELECT o.run_id FROM orphan o)) AND r.worker_id IS NOT DISTINCT FROM @worker -- keeps the plan on the key
    RETURNING r.run_id, r.lane_id, r.epoch
), noted AS (
    INSERT INTO oarlock.events (run_id, kind, worker, epoch, message)
    SELECT q.run_id, 'lost', w.name, q.epoch, format('worker %s was lost: queued again', coalesce(w.name, @worker::text))
      FROM queued q LEFT JOIN oarlock.workers w ON w.worker_id = @worker ORDER BY q.run_id
), woken AS (
    SELECT oarlock.wake(q.lane_id, count(*), 2) FROM queued q GROUP BY q.lane_id
), told AS (
    SELECT pg_notify(f.channel, 'run:' || q.run_id) FROM queued q JOIN oarlock.followers f USING (run_id)
)
SELECT (SELECT count(*) FROM queued), (SELECT count(*) FROM woken), (SELECT count(*) FROM told)
