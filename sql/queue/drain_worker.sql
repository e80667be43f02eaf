-- Purpose: asks a worker, by name or id, to finish what it runs and to claim nothing more
-- Index: none: a table of a few rows
-- Locks: none: a worker's renewals wait for nobody
SELECT oarlock.drain_worker(@worker)
