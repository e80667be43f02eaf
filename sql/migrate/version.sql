-- Purpose: the newest schema version that is applied, 0 when none is; fails with 42P01 where there is no history
-- Index: schema_history_pkey, backwards
-- Locks: none
SELECT coalesce(max(version), 0) FROM oarlock.schema_history
