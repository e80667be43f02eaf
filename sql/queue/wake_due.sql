-- Purpose: queues parked runs that are due to wake
-- Index: runs_wake
-- Locks: those runs, passing over locked ones
SELECT oarlock.wake_due($1)
