-- Purpose: S8: at most one attempt of a task runs. A row here is an attempt that was superseded before it ended
-- Index: none, it reads all superseded attempts
-- Locks: none
SELECT a.run_id, a.step, a.item, a.alt, a.attempt, a.state
  FROM oarlock.attempts a
 WHERE a.finished_at IS NULL OR a.state IN ('pending', 'ready', 'running', 'finishing')
