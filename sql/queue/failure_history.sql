-- Purpose: how many of the newest runs of a DAG ended like a given run, which of these was the first, and which run succeeded
--          last before the given run
-- Index: runs_pkey, runs_finished backwards
-- Locks: none
SELECT h.ended, h.alike, h.first_run, coalesce(h.first_version, 0), coalesce(h.version_before, 0), h.last_good
  FROM oarlock.failure_history(@run) h
