-- Purpose: ends a connection of our own after its reply was lost, and waits until it is gone; false: it is still there
-- Index: none
-- Locks: none
SELECT coalesce((SELECT pg_terminate_backend(a.pid, 3000) FROM pg_stat_activity a WHERE a.pid = $1 AND a.backend_start = $2), true)
