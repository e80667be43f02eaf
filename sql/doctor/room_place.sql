-- Purpose: has the table of the next statement be where the database is
-- Index: none
-- Locks: none
SELECT set_config('temp_tablespaces', '', true)
