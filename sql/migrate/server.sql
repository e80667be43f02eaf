-- Purpose: whether this server can be migrated: its version number, whether it is a standby, and whether a setting makes this
--          session read-only
-- Index: none
-- Locks: none
SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('transaction_read_only')::boolean
