-- Purpose: before a transaction settles its task: makes it ours again, whatever role or timeout its statements chose; gives it the name under which a takeover ends what holds it up; and says which backend to end should the reply of COMMIT be lost
-- Index: none
-- Locks: none
WITH ours AS MATERIALIZED (
    SELECT set_config('role', 'none', true) AS role, set_config('application_name', $1, true), set_config('lock_timeout', $2, true)
)
SELECT a.pid, a.backend_start
  FROM ours CROSS JOIN LATERAL pg_stat_get_activity(CASE WHEN ours.role = 'none' THEN pg_backend_pid() END) a -- another role would not see it
