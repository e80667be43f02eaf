-- Purpose: connections in use and allowed, and those that workers hold: of the server, of this database where it has a limit, and of this
--          user and the logins of workers where they have one. Of others' sessions a user without pg_monitor sees no kind: those of a user
--          in a database count. Their names anybody sees
-- Index: none: shared memory and a few catalog rows
-- Locks: none
WITH used AS (
    SELECT usename, datname, CASE WHEN application_name LIKE 'oarlock/%' THEN application_name END AS worker FROM pg_stat_activity
     WHERE backend_type = 'client backend' OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL
), limits AS (
    SELECT 1 AS place, 'server' AS scope, NULL::name AS login, NULL::name AS database, current_setting('max_connections')::bigint AS allowed,
           current_setting('superuser_reserved_connections')::bigint
             + coalesce(nullif(current_setting('reserved_connections', true), '')::bigint, 0) AS reserved -- the second since PostgreSQL 16
    UNION ALL
    SELECT 2, 'database ' || datname, NULL, datname, datconnlimit, 0 FROM pg_database WHERE datname = current_database() AND datconnlimit >= 0
    UNION ALL
    SELECT 3, 'login ' || rolname, rolname, NULL, rolconnlimit, 0 FROM pg_roles
     WHERE rolconnlimit >= 0 AND NOT rolsuper
       AND (rolname = current_user OR rolname IN (SELECT usename FROM used WHERE worker IS NOT NULL AND datname = current_database()))
)
SELECT scope, count(used) AS used, allowed, reserved, count(DISTINCT worker) AS workers, count(worker) AS held
  FROM limits LEFT JOIN used ON (login IS NULL OR used.usename = login) AND (database IS NULL OR used.datname = database)
 GROUP BY place, scope, allowed, reserved
 ORDER BY place, scope
