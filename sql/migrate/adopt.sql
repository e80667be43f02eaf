-- Purpose: says of a restored or copied database what it is; of a copy, ends some of the original's open runs
-- Index: runs_queued, runs_rare, runs_pkey, tasks_pkey
-- Locks: the installation's row; then the runs it ends, in the order of their numbers
SELECT a.installation, a.canceled, a.is_done FROM oarlock.adopt($1, $2, $3) a
