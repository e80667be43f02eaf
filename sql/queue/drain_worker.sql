-- Purpose: asks a worker, by name or id, to finish what it runs and to claim nothing more
-- Index: none: a table of a few rows
-- Locks: the rows of the workers until the statement is done
SELECT oarlock.drain_worker(@worker)
