-- Purpose: asks a worker, by name or id, to finish the runs that it holds and to claim no more
-- Index: none: a table of a few rows
-- Locks: none: the renewals of a worker never have to wait
SELECT oarlock.drain_worker(@worker)
