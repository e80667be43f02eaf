-- Purpose: the sessions that hold up a flush, in words for people: they hold rows of these runs, the worker's own fence, or a
--          table of ours; '' if none can be seen
-- Index: runs_pkey, fences_pkey
-- Locks: none
SELECT coalesce(string_agg(format('process %s of user %s (%s) holds %s', x.pid, coalesce(a.usename, '?'), coalesce(nullif(a.application_name, ''), 'no name'), x.what), '; '), '')
  FROM (SELECT DISTINCT l.pid, coalesce(c.relname::text, 'a row') AS what
          FROM pg_locks l
          LEFT JOIN pg_class c ON l.locktype = 'relation' AND c.oid = l.relation
         WHERE l.granted AND l.pid <> pg_backend_pid()
           AND (l.locktype = 'relation' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
                AND c.relnamespace = 'oarlock'::regnamespace AND c.relkind IN ('r', 'p')
                OR l.locktype = 'transactionid' AND l.transactionid IN (
                    SELECT r.xmax FROM oarlock.runs r WHERE r.run_id = ANY (@runs::bigint[])
                     UNION ALL SELECT f.xmax FROM oarlock.fences f WHERE f.worker_id = @worker))
         ORDER BY l.pid LIMIT 3) x
  LEFT JOIN pg_stat_activity a ON a.pid = x.pid
