-- Purpose: makes a standby follow no server, from the next reload on (tests only)
-- Index: none
-- Locks: none
ALTER SYSTEM SET primary_conninfo = ''
