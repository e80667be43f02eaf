-- Purpose: the newest schema version that is applied, and the oldest of the programs that work with it; both 0 when none is
--          applied. Fails with 42P01 where there is no history
-- Index: schema_history_pkey; it has a row for each version
-- Locks: none
SELECT coalesce(max(version), 0), coalesce(max(programs_from), 0) FROM oarlock.schema_history
