-- Purpose: the log of each attempt, and how the attempt ended. What Oarlock itself says in a log (stream 0) was not written by the task
-- Index: log_chunks_pkey
-- Locks: none
WITH attempt AS (
    SELECT run_id, step, item, alt, attempt, state, coalesce(failure_kind, '') AS failure_kind FROM oarlock.attempts
    UNION ALL SELECT run_id, step, item, alt, attempt, state, coalesce(failure_kind, '') FROM oarlock.tasks WHERE attempt > 0
)
SELECT a.run_id, s.name || coalesce('~' || nullif(a.alt, 0), ''), a.item, a.attempt, a.state, a.failure_kind, x.seqs, x.finals, x.data, x.dropped
  FROM attempt a
  JOIN oarlock.runs r USING (run_id)
  JOIN oarlock.dag_versions v ON v.dag_id = r.dag_id AND v.version = r.version
  JOIN LATERAL oarlock.steps_of(v.spec) s ON s.step = a.step
 CROSS JOIN LATERAL (
       SELECT coalesce(array_agg(c.seq ORDER BY c.seq), '{}') AS seqs, coalesce(array_agg(c.final ORDER BY c.seq), '{}') AS finals,
              coalesce(array_agg(CASE WHEN c.stream = 0 THEN '' ELSE coalesce(c.data, '') END ORDER BY c.seq), '{}') AS data, coalesce(array_agg(coalesce(c.dropped_bytes, 0) ORDER BY c.seq), '{}') AS dropped
         FROM oarlock.log_chunks c
        WHERE c.run_id = a.run_id AND c.step = a.step AND c.item = a.item AND c.alt = a.alt AND c.attempt = a.attempt) x
 WHERE s.body ? 'run' AND NOT (s.kind = 'foreach' AND a.item = '')
