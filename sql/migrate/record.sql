-- Purpose: records that a migration was applied, in the transaction of that migration. A second row for a version is an error:
--          two sessions have migrated at once
-- Index: schema_history_pkey
-- Locks: none but the new row
INSERT INTO oarlock.schema_history (version, programs_from) VALUES ($1, $2)
