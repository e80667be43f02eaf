-- Purpose: queues parked runs that are due to wake
-- Index: runs_wake
-- Locks: the runs that it queues, passing over locked ones
SELECT oarlock.wake_due($1)
