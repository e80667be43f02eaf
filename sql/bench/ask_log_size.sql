-- Purpose: bytes of all partitions of the logs, with what is stored beside them and their indexes. Only benchmarks send it
-- Index: none
-- Locks: none
SELECT sum(pg_total_relation_size(i.inhrelid))::float8 FROM pg_inherits i WHERE i.inhparent = 'oarlock.log_chunks'::regclass
