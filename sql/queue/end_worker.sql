-- Purpose: ends the connections of a worker that was found lost: the ones that the owner of the schema may end, and the ones
--          that this role may end
-- Index: workers_pkey
-- Locks: none
SELECT oarlock.end_backends(@worker) + (
       SELECT count(*) FILTER (WHERE pg_terminate_backend(a.pid)) FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.application_name = 'oarlock/' || @worker::uuid AND a.pid <> pg_backend_pid()
          AND pg_has_role(a.usesysid, 'USAGE')
          AND EXISTS (SELECT FROM oarlock.workers w WHERE w.worker_id = @worker AND w.state IN ('lost', 'gone')))
