-- Purpose: what happened to a run, from an event on
-- Index: events_run, runs_pkey, dag_versions_pkey
-- Locks: none
SELECT e.event_id, e.at, e.kind, e.by, e.worker, e.epoch,
       coalesce(s.name, e.step::text) || coalesce('~' || nullif(e.alt, 0), ''), e.item, e.message
  FROM oarlock.events e
  JOIN oarlock.runs r USING (run_id)
  JOIN oarlock.dag_versions v USING (dag_id, version)
  LEFT JOIN LATERAL oarlock.steps_of(v.spec) s ON s.step = e.step
 WHERE e.run_id = @run AND e.event_id > @after
 ORDER BY e.event_id LIMIT @rows
