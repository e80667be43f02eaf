-- Purpose: bytes of text in the logs of a run, and how many were dropped. Only benchmarks send it
-- Index: log_chunks' key
-- Locks: none
SELECT coalesce(sum(octet_length(c.data)), 0)::bigint, coalesce(sum(c.dropped_bytes), 0)::bigint FROM oarlock.log_chunks c WHERE c.run_id = ANY ($1)
