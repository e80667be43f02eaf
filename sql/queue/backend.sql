-- Purpose: the server process behind this connection, so that another connection can find it and end it
-- Index: none
-- Locks: none
SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()
