-- Purpose: connections in use and allowed: of the server, and of this database and user where they have a limit
-- Index: none: shared memory and two catalog rows
-- Locks: none
WITH used AS (SELECT usename, datname FROM pg_stat_activity WHERE backend_type = 'client backend')
SELECT 'server' AS scope, (SELECT count(*) FROM used) AS used,
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint AS allowed
UNION ALL
SELECT 'database', (SELECT count(*) FROM used WHERE used.datname = d.datname), datconnlimit
  FROM pg_database d WHERE d.datname = current_database() AND datconnlimit >= 0
UNION ALL
SELECT 'user', (SELECT count(*) FROM used WHERE usename = rolname), rolconnlimit
  FROM pg_roles WHERE rolname = current_user AND rolconnlimit >= 0
