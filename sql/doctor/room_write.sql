-- Purpose: writes a new megabyte, into a temporary table, in a transaction that the caller rolls back. Rows added to an
--          existing table might go to free pages, and would not show that the disk is full
-- Index: none
-- Locks: none that another session waits for
CREATE TEMPORARY TABLE oarlock_doctor ON COMMIT DROP AS SELECT n FROM generate_series(1, 30000) n
