-- Purpose: puts the temporary table of the next statement into the tablespace of the database
-- Index: none
-- Locks: none
SELECT set_config('temp_tablespaces', '', true)
