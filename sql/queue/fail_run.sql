-- Purpose: ends a run that has records which the database cannot take
-- Index: runs_pkey, fences_pkey, tasks_pkey, controls_open
-- Locks: our commit fence; then parent and run; then its tasks and controls
SELECT oarlock.fail_run(@run, @claim, @epoch, @reason)
