-- Purpose: the timeline that the server writes: above 1 after each promotion of a standby and each recovery to a moment
-- Index: none: shared memory and the control file
-- Locks: none
SELECT CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END
