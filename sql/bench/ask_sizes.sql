-- Purpose: bytes of the tables that grow with runs, and of the tables that do not. Only benchmarks send it
-- Index: none
-- Locks: none
SELECT (pg_total_relation_size('oarlock.runs') + pg_total_relation_size('oarlock.tasks'))::float8,
       (SELECT sum(pg_total_relation_size(n::regclass)) FROM unnest(ARRAY['oarlock.workers', 'oarlock.worker_offers', 'oarlock.fences', 'oarlock.lanes', 'oarlock.queues', 'oarlock.followers']) n)::float8
