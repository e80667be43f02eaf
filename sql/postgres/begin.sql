-- Purpose: names the transaction of a task for readers of pg_stat_activity, bounds its statements, and makes dates come back in
--          one form whatever the server prefers
-- Index: none
-- Locks: none
SELECT set_config('application_name', $1, true), set_config('statement_timeout', $2, true), set_config('lock_timeout', $3, true),
       set_config('datestyle', 'ISO', true) -- only how dates are printed: how they are read stays as it is
