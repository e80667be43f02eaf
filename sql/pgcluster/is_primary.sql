-- Purpose: whether a server has ended its recovery and takes writes (tests only)
-- Index: none
-- Locks: none
SELECT NOT pg_is_in_recovery()
