-- Purpose: how often pages of the queue of notifications were looked up or made; every NOTIFY does. Only benchmarks send it
-- Index: none
-- Locks: none
SELECT sum(s.blks_hit + s.blks_read + s.blks_zeroed)::float8 FROM pg_stat_slru s WHERE lower(s.name) = 'notify'
