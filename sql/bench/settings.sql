-- Purpose: the settings of the server that decide how fast it may be. Only benchmarks send it
-- Index: none
-- Locks: none
SELECT name || '=' || current_setting(name) FROM pg_settings
 WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_level', 'wal_compression', 'wal_sync_method', 'shared_buffers',
                'max_wal_size', 'checkpoint_timeout', 'max_connections', 'autovacuum', 'jit', 'commit_delay', 'server_version')
 ORDER BY name
