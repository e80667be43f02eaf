-- Purpose: whether the role oarlock_owner owns the schema; false where the group roles were never set up
-- Index: pg_namespace_nspname_index
-- Locks: none
SELECT pg_get_userbyid(nspowner) = 'oarlock_owner' FROM pg_namespace WHERE nspname = 'oarlock'
