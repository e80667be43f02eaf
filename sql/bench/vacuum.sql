-- Purpose: brings statistics and maps up to date after rows were made in bulk. Only benchmarks send it
-- Index: none
-- Locks: as VACUUM
VACUUM (ANALYZE) oarlock.runs
