-- Purpose: the process that serves this statement; behind a pooler not the one that was announced at connect
-- Index: none
-- Locks: none
SELECT pg_catalog.pg_backend_pid()
