-- Purpose: connections in use and allowed, and those that workers hold: of the server, of this database where it has a limit, and of this
--          user and the logins of workers where they have one. Given the workers at work; those of a login are told only where it alone has
--          some, or by their connections. Of others' sessions a user without pg_monitor sees no kind: those of a user in a database count.
--          Their names anybody sees
-- Index: none: shared memory and a few catalog rows
-- Locks: none
WITH used AS (
    SELECT usename, datname, CASE WHEN application_name LIKE 'oarlock/%' THEN application_name END AS worker FROM pg_stat_activity
     WHERE backend_type = 'client backend' OR backend_type IS NULL AND usesysid IS NOT NULL AND datid IS NOT NULL
), serving AS (
    SELECT usename AS login FROM used WHERE worker IS NOT NULL AND datname = current_database()
    UNION
    -- While a worker at work has no connection, its login may be one that gets none. A login that is connected to another database serves that.
    SELECT r.rolname FROM pg_roles r JOIN pg_roles g ON g.rolname = 'oarlock_worker'
     WHERE r.rolcanlogin AND NOT r.rolsuper AND r.rolconnlimit >= 0 AND pg_has_role(r.oid, g.oid, 'MEMBER')
       AND has_database_privilege(r.oid, current_database(), 'CONNECT')
       AND NOT EXISTS (SELECT FROM used u WHERE u.usename = r.rolname AND u.datname <> current_database())
       AND EXISTS (SELECT FROM unnest($1::text[]) w (id)
                    WHERE NOT EXISTS (SELECT FROM used u WHERE u.worker = 'oarlock/' || w.id AND u.datname = current_database()))
), limits AS (
    SELECT 1 AS place, 'server' AS scope, NULL::name AS login, NULL::name AS database, current_setting('max_connections')::bigint AS allowed,
           current_setting('superuser_reserved_connections')::bigint
             + coalesce(nullif(current_setting('reserved_connections', true), '')::bigint, 0) AS reserved -- the second since PostgreSQL 16
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
