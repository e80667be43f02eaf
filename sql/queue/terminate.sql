-- Purpose: ends a server process of ours and waits until it is gone, with whatever it had under way. No row: it is gone already
-- Index: none
-- Locks: none
SELECT pg_terminate_backend(a.pid, @patience_ms::bigint) FROM pg_stat_activity a WHERE a.pid = @pid AND a.backend_start = @started
