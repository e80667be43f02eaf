-- Purpose: has every commit of later sessions wait 5 ms before it syncs, as on a slow disk. Only benchmarks send it, to a server
--          with commit_siblings 0: otherwise a commit waits only where others are in a transaction
-- Index: none
-- Locks: none
ALTER DATABASE "{name}" SET commit_delay = 5000
