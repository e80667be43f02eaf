-- Purpose: send the test notification; the payload tells runs of doctor apart
-- Index: none
-- Locks: the short lock that all notifying commits share
SELECT pg_notify('oarlock_doctor', $1)
