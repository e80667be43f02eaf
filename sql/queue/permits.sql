-- Purpose: tells the database which permits of pools a worker keeps or wants; returns which of them it has, as JSON
-- Index: fences_pkey, permit_calls_pkey, permits_pkey, permits_granted, permits_waiting, pools_pkey, pool_keys_pkey
-- Locks: the worker's fence and its row in permit_calls; the rows in pools, in the order of their names, for lock_timeout at most;
--        then rows of permits, and permit_calls of the workers that it grants to, passing over locked ones
SELECT oarlock.permits(@worker, @call, @wanted::text::jsonb)
