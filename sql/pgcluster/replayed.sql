-- Purpose: whether a standby has come as far as a position (tests only)
-- Index: none
-- Locks: none
SELECT coalesce(pg_last_wal_replay_lsn(), '0/0') >= ($1::text)::pg_lsn
