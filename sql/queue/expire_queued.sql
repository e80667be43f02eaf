-- Purpose: ends runs that waited too long to start
-- Index: runs_deadline, controls_open
-- Locks: each one's parent, then itself, then its open controls, passing over locked ones
SELECT oarlock.expire_queued($1)
