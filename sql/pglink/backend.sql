-- Purpose: the process id of the backend that serves this statement. Behind a pooler it is not the process id that was
--          announced at connect
-- Index: none
-- Locks: none
SELECT pg_catalog.pg_backend_pid()
