-- Buffers of tables and their indexes read in this database so far, without those of catalogues, and scans of whole tables that
-- grow with what ran.
SELECT (SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))::bigint FROM pg_statio_user_tables WHERE schemaname = 'oarlock'),
       (SELECT coalesce(sum(seq_scan), 0)::bigint FROM pg_stat_user_tables
         WHERE schemaname = 'oarlock' AND (relname IN ('runs', 'tasks') OR relname LIKE 'log_chunks%'))
