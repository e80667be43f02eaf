-- Purpose: prepares a transaction to settle its task: resets the role and the lock timeout that the statements of the task may
--          have changed, and sets the application name by which a takeover finds and ends transactions that hold it up. Returns
--          the backend that the caller has to end should the reply of COMMIT be lost
-- Index: none
-- Locks: none
WITH ours AS MATERIALIZED (
    SELECT set_config('role', 'none', true) AS role, set_config('application_name', $1, true), set_config('lock_timeout', $2, true)
)
SELECT a.pid, a.backend_start
  FROM ours CROSS JOIN LATERAL pg_stat_get_activity(CASE WHEN ours.role = 'none' THEN pg_backend_pid() END) a -- another role would not see it
