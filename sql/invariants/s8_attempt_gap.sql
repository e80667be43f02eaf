-- Purpose: S8: attempts are numbered without a gap. A row here is a number that is missing below the attempt of a task, or an
--          attempt above it
-- Index: none, it reads all tasks; attempts_pkey
-- Locks: none
SELECT t.run_id, t.step, t.item, t.alt, t.attempt, n AS missing, NULL::int AS above
  FROM oarlock.tasks t
 CROSS JOIN LATERAL generate_series(1, t.attempt - 1) n
 WHERE NOT EXISTS (SELECT FROM oarlock.attempts a
                    WHERE a.run_id = t.run_id AND a.step = t.step AND a.item = t.item AND a.alt = t.alt AND a.attempt = n)
UNION ALL
SELECT a.run_id, a.step, a.item, a.alt, t.attempt, NULL, a.attempt
  FROM oarlock.attempts a
  LEFT JOIN oarlock.tasks t ON t.run_id = a.run_id AND t.step = a.step AND t.item = a.item AND t.alt = a.alt
 WHERE t.run_id IS NULL OR a.attempt > t.attempt OR a.attempt = t.attempt AND t.state = 'running'
