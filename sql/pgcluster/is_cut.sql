-- Purpose: whether a standby receives nothing (tests only)
-- Index: none
-- Locks: none
SELECT count(*) = 0 FROM pg_stat_wal_receiver
