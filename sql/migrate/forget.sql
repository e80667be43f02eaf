-- Purpose: a migration was taken back; in its own transaction
-- Index: schema_history_pkey
-- Locks: the row
DELETE FROM oarlock.schema_history WHERE version = $1
