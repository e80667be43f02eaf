-- Purpose: has a standby follow nobody, from the next reload on (tests only)
-- Index: none
-- Locks: none
ALTER SYSTEM SET primary_conninfo = ''
