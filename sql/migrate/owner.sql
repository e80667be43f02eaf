-- Purpose: do the group roles own the schema; false where they were never set up
-- Index: pg_namespace_nspname_index
-- Locks: none
SELECT pg_get_userbyid(nspowner) = 'oarlock_owner' FROM pg_namespace WHERE nspname = 'oarlock'
