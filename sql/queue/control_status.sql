-- Purpose: the state of a control: whether it was decided, and how
-- Index: controls_pkey, runs_pkey
-- Locks: none
SELECT a.id, a.run, a.verb, a.step, a.item, NULL::jsonb AS args, a.by, a.at, a.decided_at, a.outcome, a.state, a.message
  FROM oarlock.control_status(@control) a
