-- Purpose: the attempts of a run that have a stored log
-- Index: log_chunks_pkey
-- Locks: none
SELECT DISTINCT c.step, c.item, c.alt, c.attempt FROM oarlock.log_chunks c WHERE c.run_id = $1
