-- Purpose: all applied schema versions, the newest first; fails with 42P01 where there is no history
-- Index: schema_history_pkey, backwards
-- Locks: none
SELECT version, programs_from, applied_at FROM oarlock.schema_history ORDER BY version DESC
