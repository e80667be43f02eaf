-- Purpose: the controls of a run, oldest first; the newest 1,000
-- Index: controls_run
-- Locks: none
SELECT c.id, c.run, c.verb, c.step, c.item, c.args, c.by, c.at, c.decided_at, c.outcome, c.state, c.message
  FROM oarlock.control_list(@run) c
