-- Purpose: describes the session that holds the lock of migrations, for a person waiting for it. No row: no session holds it
--          any more
-- Index: none
-- Locks: none
SELECT format('process %s of user %s (%s%s)', l.pid, a.usename, coalesce(nullif(a.application_name, ''), 'no application name'),
              ', connected since ' || to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'))
  FROM pg_locks l JOIN pg_stat_activity a USING (pid)
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND (l.classid::bigint << 32 | l.objid::bigint) = $1
 LIMIT 1
