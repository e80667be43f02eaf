-- Purpose: reads the settings again (tests only)
-- Index: none
-- Locks: none
SELECT pg_reload_conf()
