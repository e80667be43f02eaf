-- Purpose: the statements, rows and buffers of this database so far, and the WAL bytes and full pages that the server has
--          written; statements that begin with bench/ask do not count. Only benchmarks send it, in a database that has
--          pg_stat_statements
-- Index: none
-- Locks: none
SELECT coalesce(sum(s.calls), 0)::float8 AS statements, coalesce(sum(s.rows), 0)::float8 AS rows,
       coalesce(sum(s.shared_blks_hit + s.shared_blks_read), 0)::float8 AS buffers,
       (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 AS wal_bytes, (SELECT w.wal_fpi FROM pg_stat_wal w)::float8 AS full_pages
  FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
 WHERE d.datname = current_database() AND s.query NOT LIKE '/* oarlock bench/ask%'
