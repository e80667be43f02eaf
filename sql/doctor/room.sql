-- Purpose: the room that the database takes, and in it the largest tables of Oarlock; all partitions of logs count as one table
-- Index: none: the sizes of files
-- Locks: ACCESS SHARE on each table, for a moment
WITH used AS (
    SELECT regexp_replace(c.relname, '^log_chunks_.*$', 'log_chunks') AS name, sum(pg_total_relation_size(c.oid))::bigint AS bytes
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('oarlock', 'oarlock_river') AND c.relkind = 'r'
     GROUP BY 1
)
SELECT pg_size_pretty(pg_database_size(current_database())) AS database,
       pg_size_pretty(coalesce((SELECT sum(u.bytes) FROM used u), 0)::bigint) AS ours,
       ARRAY(SELECT format('%s %s', u.name, pg_size_pretty(u.bytes)) FROM used u ORDER BY u.bytes DESC, u.name LIMIT 3) AS largest
