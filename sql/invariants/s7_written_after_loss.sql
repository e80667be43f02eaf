-- Purpose: S7: a lost worker writes nothing more. A row here is a task with a time after the loss of the drive that wrote it,
--          with a second of slack because clocks may differ a little. A cancel of a run that no worker holds ends tasks at the
--          moment of its event: these are left out
-- Index: none, it reads all losses; events_run, tasks_pkey
-- Locks: none
SELECT t.run_id, t.step, t.item, t.alt, t.epoch, e.at AS lost_at, greatest(t.attempt_at, t.finished_at) AS written_at
  FROM oarlock.events e
  JOIN oarlock.tasks t ON t.run_id = e.run_id AND t.epoch <= e.epoch
 WHERE e.kind = 'lost' AND e.seq IS NULL
   AND greatest(t.attempt_at, t.finished_at) > e.at + interval '1 second'
   AND NOT EXISTS (SELECT FROM oarlock.events c
                    WHERE c.run_id = t.run_id AND c.kind = 'canceled' AND c.epoch IS NULL AND c.at = t.finished_at AND t.state = 'canceled')
