-- Purpose: can this server be migrated: its version number, and whether it takes no writes
-- Index: none
-- Locks: none
SELECT current_setting('server_version_num')::int, pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean
