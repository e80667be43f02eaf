-- Purpose: ends runs that waited too long to start
-- Index: runs_deadline
-- Locks: each one's parent, then itself, passing over locked ones
SELECT oarlock.expire_queued($1)
