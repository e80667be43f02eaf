-- Purpose: a migration was applied; in its own transaction. A version twice is an error: two have migrated at once
-- Index: schema_history_pkey
-- Locks: none but the new row
INSERT INTO oarlock.schema_history (version, programs_from) VALUES ($1, $2)
