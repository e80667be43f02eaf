-- Purpose: S9: an approval that waits has a row in approvals_open, and no other task has one. Whether a replacement is an
--          approval is known only if all its possible bodies agree
-- Index: none, it reads all tasks; runs_pkey, dag_versions_pkey, approvals_open_pkey
-- Locks: none
WITH kind AS (
    SELECT v.dag_id, v.version, s.step, alt.name <> s.name AS replaces,
           bool_and(b.body ->> 'action' IS NOT DISTINCT FROM 'approval') AS surely, bool_or(b.body ->> 'action' IS NOT DISTINCT FROM 'approval') AS maybe
      FROM oarlock.dag_versions v
     CROSS JOIN LATERAL oarlock.steps_of(v.spec) s
     CROSS JOIN LATERAL (VALUES (s.name), (s.name || '~1')) alt (name)
     CROSS JOIN LATERAL oarlock.bodies_of(alt.name, s.body) b (body)
     GROUP BY v.dag_id, v.version, s.step, alt.name <> s.name
), waits AS (
    SELECT t.run_id, t.step, t.item, t.alt, t.state, k.surely
      FROM oarlock.tasks t
      JOIN oarlock.runs r USING (run_id)
      JOIN kind k ON k.dag_id = r.dag_id AND k.version = r.version AND k.step = t.step AND k.replaces = (t.alt > 0)
     WHERE t.state = 'waiting' AND t.attempt_at IS NOT NULL AND k.maybe AND r.finished_at IS NULL
)
SELECT coalesce(w.run_id, a.run_id) AS run_id, coalesce(w.step, a.step) AS step, coalesce(w.item, a.item) AS item, coalesce(w.alt, a.alt) AS alt,
       CASE WHEN a.run_id IS NULL THEN 'it waits, and has no row' ELSE 'it has a row, and does not wait' END AS what
  FROM waits w
  FULL JOIN oarlock.approvals_open a ON a.run_id = w.run_id AND a.step = w.step AND a.item = w.item AND a.alt = w.alt
 WHERE a.run_id IS NULL AND w.surely OR w.run_id IS NULL
