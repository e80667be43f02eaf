-- Purpose: tests of sharing: how long after the last worker registered the last task of step $1 started, in seconds
-- Index: none: a few rows
-- Locks: none
SELECT extract(epoch FROM max(t.attempt_at) - (SELECT max(w.started_at) FROM oarlock.workers w))::float8 FROM oarlock.tasks t WHERE t.step = $1
