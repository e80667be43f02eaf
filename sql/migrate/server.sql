-- Purpose: can this server be migrated: its version number, is it a standby, is this session read-only by a setting
-- Index: none
-- Locks: none
SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('transaction_read_only')::boolean
