-- Purpose: takes the lock of migrations for this session, if it is free
-- Index: none
-- Locks: the advisory lock $1, without waiting
SELECT pg_try_advisory_lock($1)
