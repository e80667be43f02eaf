-- Purpose: describes an open transaction that uses tables of Oarlock: the oldest, as far as this user may know its age. No row:
--          none uses them any more
-- Index: none
-- Locks: none
SELECT format('process %s of user %s (%s)%s', a.pid, a.usename, coalesce(nullif(a.application_name, ''), 'no application name'),
              ', open since ' || to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'))
  FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a USING (pid)
 WHERE l.locktype = 'relation' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND c.relnamespace = 'oarlock'::regnamespace AND a.pid <> pg_backend_pid()
 ORDER BY a.xact_start NULLS LAST, a.pid
 LIMIT 1
