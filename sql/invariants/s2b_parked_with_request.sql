-- Purpose: S2b: a run with an undecided control is never parked, because no driver would read the control
-- Index: runs_rare, controls_open
-- Locks: none
SELECT r.run_id, r.state, c.control_id, c.verb
  FROM oarlock.runs r
  JOIN oarlock.controls c ON c.run_id = r.run_id AND c.decided_at IS NULL
 WHERE r.state IN ('waiting', 'paused') AND r.claim_id IS NULL
