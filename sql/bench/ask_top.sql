-- Purpose: the statements of this database that took the server's time, the most first. Only benchmarks send it, in a
--          database that has pg_stat_statements
-- Index: none
-- Locks: none
SELECT s.calls, s.total_exec_time AS ms, s.rows, s.shared_blks_hit + s.shared_blks_read AS buffers, s.wal_bytes::float8, left(regexp_replace(s.query, '\s+', ' ', 'g'), 90)
  FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
 WHERE d.datname = current_database() AND s.query NOT LIKE '/* oarlock bench/ask%'
 ORDER BY s.total_exec_time DESC LIMIT 12
