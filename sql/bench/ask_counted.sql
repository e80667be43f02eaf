-- Purpose: how often statements that begin with $1 were sent, and the buffers they took. Only benchmarks send it, in a database
--          that has pg_stat_statements
-- Index: none
-- Locks: none
SELECT coalesce(sum(s.calls), 0)::float8, coalesce(sum(s.shared_blks_hit + s.shared_blks_read), 0)::float8
  FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
 WHERE d.datname = current_database() AND s.query LIKE $1 || '%'
