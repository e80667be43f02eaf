-- Purpose: the attempts with a log among the tasks that changed since, and whether the run is over
-- Index: tasks_pkey and attempts_pkey, by run
-- Locks: none
SELECT a.over, coalesce(a.epoch, 0), coalesce(a.seq, 0), coalesce(a.step, 0), coalesce(a.item, ''), coalesce(a.alt, 0), coalesce(a.attempt, 0),
       coalesce(a.log_day, 'epoch'), coalesce(a.began, 'epoch')
  FROM oarlock.log_attempts(@run, @epoch, @seq, @step, @item, @alt) a
