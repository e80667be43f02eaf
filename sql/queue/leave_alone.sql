-- Purpose: closes keys of pools for a while, because a service wants no more requests
-- Index: pools_pkey, pool_keys_pkey
-- Locks: rows of pool_keys, in the order of their names
SELECT oarlock.leave_alone(@run, @pools, @keys, @pause)
