-- Purpose: for the server, for this database if it has a limit, and for this user and the logins of workers if they have
--          limits: connections in use, connections allowed, and connections that workers hold. $1 are the ids of the workers at
--          work. They all count for a login if no other login serves this database; else a login has the workers that are
--          connected by it. A user without pg_monitor does not see the type of other users' sessions: a session then counts if
--          it has a user and a database. Every user sees the application names
-- Index: none: shared memory and a few catalog rows
-- Locks: none
WITH used AS (
    SELECT usename, datname, CASE WHEN application_name LIKE 'oarlock/%' THEN application_name END AS worker FROM pg_stat_activity
     WHERE backend_type = 'client backend' OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL
), serving AS (
    SELECT usename AS login FROM used WHERE worker IS NOT NULL AND datname = current_database()
    UNION
    -- A worker at work without a connection may have any login that gets none, so all such logins are taken. A login that is
    -- connected to another database is left out, because it serves that database.
    SELECT r.rolname FROM pg_roles r JOIN pg_roles g ON g.rolname = 'oarlock_worker'
     WHERE r.rolcanlogin AND NOT r.rolsuper AND r.rolconnlimit >= 0 AND pg_has_role(r.oid, g.oid, 'MEMBER')
       AND has_database_privilege(r.oid, current_database(), 'CONNECT')
       AND NOT EXISTS (SELECT FROM used u WHERE u.usename = r.rolname AND u.datname <> current_database())
       AND EXISTS (SELECT FROM unnest($1::text[]) w (id)
                    WHERE NOT EXISTS (SELECT FROM used u WHERE u.worker = 'oarlock/' || w.id AND u.datname = current_database()))
), limits AS (
    SELECT 1 AS place, 'server' AS scope, NULL::name AS login, NULL::name AS database, current_setting('max_connections')::bigint AS allowed,
           current_setting('superuser_reserved_connections')::bigint
             + coalesce(nullif(current_setting('reserved_connections', true), '')::bigint, 0) AS reserved -- reserved_connections exists since PostgreSQL 16
    UNION ALL
    SELECT 2, 'database ' || datname, NULL, datname, datconnlimit, 0 FROM pg_database WHERE datname = current_database() AND datconnlimit >= 0
    UNION ALL
    SELECT 3, 'login ' || rolname, rolname, NULL, rolconnlimit, 0 FROM pg_roles
     WHERE rolconnlimit >= 0 AND NOT rolsuper AND (rolname = current_user OR rolname IN (SELECT login FROM serving))
)
SELECT l.scope, count(u) AS used, l.allowed, l.reserved,
       greatest(count(DISTINCT u.worker),
                CASE WHEN l.login IS NULL OR l.login = ALL (SELECT s.login FROM serving s) AND EXISTS (SELECT FROM serving) THEN cardinality($1::text[]) END) AS workers,
       count(u.worker) AS held, l.login IS NOT NULL AS login
  FROM limits l LEFT JOIN used u ON (l.login IS NULL OR u.usename = l.login) AND (l.database IS NULL OR u.datname = l.database)
 GROUP BY l.place, l.scope, l.login, l.allowed, l.reserved
 ORDER BY l.place, l.scope
