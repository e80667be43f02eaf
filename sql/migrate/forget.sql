-- Purpose: deletes the record of a migration that was taken back, in the transaction of that migration
-- Index: schema_history_pkey
-- Locks: the row
DELETE FROM oarlock.schema_history WHERE version = $1
