-- Purpose: declares what a restored or copied database is: the installation itself in a new place, or a copy. In a copy, ends a
--          batch of the open runs of the original
-- Index: runs_queued, runs_rare, runs_pkey, tasks_pkey
-- Locks: the installation's row; then the runs it ends, in the order of their numbers
SELECT a.installation, a.canceled, a.is_done FROM oarlock.adopt($1, $2, $3) a
