-- Purpose: writes a megabyte that is not there yet, in a table of this session: for a transaction that is rolled back. Rows of tables
--          that are there might go to pages that are free
-- Index: none
-- Locks: none that anybody else waits for
CREATE TEMPORARY TABLE oarlock_doctor ON COMMIT DROP AS SELECT n FROM generate_series(1, 30000) n
