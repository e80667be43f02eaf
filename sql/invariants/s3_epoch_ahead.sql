-- Purpose: S3: epochs never fall. A row here is a task or an event of a later epoch than its run has now, so the epoch of the
--          run has fallen; or it is a claimed run of epoch 0
-- Index: none, it reads everything; runs_pkey for the join
-- Locks: none
SELECT r.run_id, r.epoch, x.what, x.epoch AS written_in
  FROM oarlock.runs r
  JOIN (SELECT t.run_id, t.epoch, format('step %s %s~%s', t.step, t.item, t.alt) AS what FROM oarlock.tasks t
        UNION ALL
        SELECT e.run_id, e.epoch, 'event ' || e.event_id FROM oarlock.events e WHERE e.epoch IS NOT NULL) x ON x.run_id = r.run_id AND x.epoch > r.epoch
UNION ALL
SELECT r.run_id, r.epoch, 'claimed without a drive', NULL FROM oarlock.runs r WHERE r.worker_id IS NOT NULL AND r.epoch = 0
