-- Purpose: how far a primary has written (tests only)
-- Index: none
-- Locks: none
SELECT pg_current_wal_flush_lsn()::text
