-- Purpose: has every commit of later sessions wait a millisecond before it syncs, as on a slow disk. Only benchmarks send it
-- Index: none
-- Locks: none
ALTER DATABASE "{name}" SET commit_delay = 1000
