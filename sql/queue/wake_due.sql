-- Purpose: queues parked runs whose time has come
-- Index: runs_wake
-- Locks: those runs, passing over locked ones
SELECT oarlock.wake_due($1)
