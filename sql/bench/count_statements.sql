-- Purpose: has the server count statements. Only benchmarks send it
-- Index: none
-- Locks: none
CREATE EXTENSION IF NOT EXISTS pg_stat_statements
