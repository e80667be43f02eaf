-- Purpose: S1: a task succeeds at most once in a generation, and once more for each retry that named its step, or a step before it,
--          while the run was under way. A row here is a task that succeeded more often
-- Index: none, it reads everything; attempts_pkey helps to group; controls_run, dag_versions_pkey
-- Locks: none
SELECT x.run_id, x.step, x.item, x.alt, x.generation, array_agg(x.attempt ORDER BY x.attempt) AS attempts
  FROM (SELECT a.run_id, a.step, a.item, a.alt, a.generation, a.attempt FROM oarlock.attempts a WHERE a.state = 'succeeded'
        UNION ALL
        SELECT t.run_id, t.step, t.item, t.alt, t.generation, t.attempt FROM oarlock.tasks t WHERE t.state = 'succeeded') x
 GROUP BY x.run_id, x.step, x.item, x.alt, x.generation
HAVING count(*) > 1
   AND count(*) > 1 + (SELECT count(*) FROM oarlock.controls c
                         JOIN oarlock.runs r ON r.run_id = c.run_id
                         JOIN oarlock.dag_versions v ON v.dag_id = r.dag_id AND v.version = r.version
                         JOIN oarlock.steps_of(v.spec) s ON s.step = x.step
                        CROSS JOIN LATERAL regexp_replace(c.step, '~[0-9]+$', '') named (step)
                        WHERE c.run_id = x.run_id AND c.verb = 'retry' AND NOT c.args ? 'generation' AND c.outcome IS DISTINCT FROM 'refused'
                          AND (s.name = named.step OR s.name = ANY (oarlock.steps_behind(v.spec, named.step))))
