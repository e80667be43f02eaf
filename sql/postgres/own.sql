-- Purpose: whether this is the primary of the database that a worker is registered in, and whether the login may settle tasks
--          there
-- Index: workers_pkey
-- Locks: none
SELECT EXISTS (SELECT FROM oarlock.workers w WHERE w.worker_id = $1) AS there,
       pg_is_in_recovery() AS standby, -- a standby shows the same row
       has_table_privilege('oarlock.fences', 'SELECT') AND has_table_privilege('oarlock.fences', 'UPDATE')
       AND has_table_privilege('oarlock.runs', 'SELECT') AND has_any_column_privilege('oarlock.runs', 'UPDATE') -- it only locks the run
       AND has_table_privilege('oarlock.tasks', 'SELECT') AND has_table_privilege('oarlock.tasks', 'UPDATE') AS may
