-- Purpose: sends the test notification; the payload distinguishes calls of doctor
-- Index: none
-- Locks: the short lock that all notifying commits share
SELECT pg_notify('oarlock_doctor', $1)
