-- Purpose: the runs of a queue that have been due for longest
-- Index: runs_queued by lane and stage, and a run's status for each: see run.sql
-- Locks: none
SELECT r.id, r.uid, r.dag, r.version, r.generation, r.state, r.reason, r.tolerated, r.queue, r.priority, r.params, r.labels, r.run_key,
       r.trigger, r.epoch, r.worker, r.submitted_by, r.parent, r.root, r.retry_of, r.counts, r.run_at, r.logical_at, r.created_at,
       r.started_at, r.finished_at, r.schedule, r.previous_logical_at, r.actor
  FROM (SELECT d.run_id
          FROM oarlock.lanes l CROSS JOIN generate_series(0, 2) s (stage)
         CROSS JOIN LATERAL (
               SELECT q.run_id, q.run_at FROM oarlock.runs q
                WHERE q.lane_id = l.lane_id AND q.stage = s.stage AND q.state = 'queued' AND q.ready_at <= statement_timestamp()
                ORDER BY q.ready_at, q.run_id LIMIT @rows) d
         WHERE l.queue = @queue
         ORDER BY d.run_at, d.run_id LIMIT @rows) due
 CROSS JOIN LATERAL oarlock.run_status(due.run_id) r
 ORDER BY r.run_at, r.id
