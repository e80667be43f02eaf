-- Purpose: the trail, with names of tasks, in order. A run that its worker hands on because the worker stops, or was cut off, also looks as if it waited for a slot: only its events show why
-- Index: audit_pkey; events_run
-- Locks: none
SELECT a.tx, a.at, a.run_id, coalesce(s.name || coalesce('~' || nullif(a.alt, 0), '') || coalesce('/' || nullif(a.item, ''), ''), '') AS task,
       coalesce(s.body ? 'run' AND NOT (s.kind = 'foreach' AND a.item = ''), false) OR coalesce(a.alt, 0) > 0 AS shell,
       coalesce(a.was, ''), a.became, a.attempt, a.was_attempt, a.generation, a.reset_by, a.epoch, a.run_epoch, coalesce(a.claim::text, ''), a.asked,
       CASE WHEN a.slotless IS NULL OR EXISTS (SELECT FROM oarlock.events e WHERE e.run_id = a.run_id AND e.epoch = a.epoch AND e.kind = 'handed_on'
                                                  AND e.message NOT LIKE '%has no free slot%') THEN '' ELSE a.slotless::text END
  FROM chaos.audit a
  JOIN oarlock.runs r USING (run_id)
  JOIN oarlock.dag_versions v ON v.dag_id = r.dag_id AND v.version = r.version
  LEFT JOIN LATERAL oarlock.steps_of(v.spec) s ON s.step = a.step
 ORDER BY a.seq
