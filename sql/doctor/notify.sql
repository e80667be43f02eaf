-- Purpose: send the test notification; the payload tells runs of doctor apart
-- Index: none
-- Locks: the short one that all notifying commits share
SELECT pg_notify('oarlock_doctor', $1)
