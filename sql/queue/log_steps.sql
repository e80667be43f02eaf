-- Purpose: the names of a run's steps by number; no row: there is no such run, or it is not the user's
-- Index: runs_pkey, dag_versions_pkey
-- Locks: none
SELECT s.step, s.name FROM oarlock.log_steps(@run) s
