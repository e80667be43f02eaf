-- Purpose: whether the server process behind a former connection of our own is gone
-- Index: none
-- Locks: none
SELECT NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = $1 AND a.backend_start = $2)
