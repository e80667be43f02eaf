-- Purpose: connections in use and allowed: of the server, and of this database and user where they have a limit. Of others' sessions a
--          user without pg_monitor sees no kind: those of a user in a database count
-- Index: none: shared memory and two catalog rows
-- Locks: none
WITH used AS (
    SELECT usename, datname FROM pg_stat_activity
     WHERE backend_type = 'client backend' OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL
)
SELECT 'server' AS scope, (SELECT count(*) FROM used) AS used, current_setting('max_connections')::bigint AS allowed,
       current_setting('superuser_reserved_connections')::bigint
         + coalesce(nullif(current_setting('reserved_connections', true), '')::bigint, 0) AS reserved -- the second since PostgreSQL 16
UNION ALL
SELECT 'database', (SELECT count(*) FROM used WHERE used.datname = d.datname), datconnlimit, 0
  FROM pg_database d WHERE d.datname = current_database() AND datconnlimit >= 0
UNION ALL
SELECT 'user', (SELECT count(*) FROM used WHERE usename = rolname), rolconnlimit, 0
  FROM pg_roles WHERE rolname = current_user AND rolconnlimit >= 0
