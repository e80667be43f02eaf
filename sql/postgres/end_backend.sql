-- Purpose: ends the backend that did not answer a COMMIT, and waits until it is gone; false: it is still there
-- Index: none
-- Locks: none
SELECT coalesce((SELECT pg_terminate_backend(a.pid, 3000) FROM pg_stat_get_activity($1) a WHERE a.backend_start = $2), true)
