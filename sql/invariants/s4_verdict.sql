-- Purpose: S4: the end of a run follows from the ends of its tasks. Items and replacements may be of an earlier generation, so
--          only rows of steps count against a success
-- Index: none, it reads all finished runs; tasks_pkey
-- Locks: none
SELECT r.run_id, r.state, r.reason, x.problem
  FROM oarlock.runs r
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE t.item = '' AND t.alt = 0 AND (t.state = 'failed' AND NOT t.tolerated OR t.state = 'upstream_failed')) AS against,
              count(*) FILTER (WHERE t.item = '' AND t.alt = 0 AND t.state = 'canceled') AS called_off,
              count(*) FILTER (WHERE t.state IN ('failed', 'upstream_failed')) AS failures,
              count(*) FILTER (WHERE t.state = 'canceled') AS cancels
         FROM oarlock.tasks t WHERE t.run_id = r.run_id) n
 CROSS JOIN LATERAL (
       SELECT CASE r.state
              WHEN 'succeeded' THEN CASE WHEN n.against + n.called_off > 0 THEN format('%s steps failed, %s were canceled', n.against, n.called_off)
                                         WHEN r.epoch = 0 THEN 'nobody drove it' END
              WHEN 'failed'    THEN CASE WHEN n.failures = 0 AND r.ending IN ('', 'none', 'fail_fast') AND r.reason <> 'queue_timeout' THEN 'nothing failed' END
              WHEN 'canceled'  THEN CASE WHEN n.cancels = 0 AND r.ending NOT IN ('cancel', 'now') AND r.started_at IS NOT NULL THEN 'nothing was canceled' END
              END AS problem) x
 WHERE r.finished_at IS NOT NULL AND x.problem IS NOT NULL
