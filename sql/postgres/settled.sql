-- Purpose: for an attempt with an unanswered COMMIT: the newest attempt of its task, and whether the attempt asked about is
--          settled
-- Index: tasks_pkey
-- Locks: the task FOR NO KEY UPDATE, so that the statement waits for a transaction that is still about to settle
SELECT t.attempt, coalesce((t.settled ->> 'attempt')::int = @attempt::int, false)
  FROM oarlock.tasks t
 WHERE t.run_id = @run AND t.step = @step AND t.item = @item AND t.alt = @alt
   FOR NO KEY UPDATE
