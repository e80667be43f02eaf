-- Purpose: opens a pool, or one key of it
-- Index: pools_pkey, pool_keys_pkey
-- Locks: the pool's row, then the key's row, until the statement is done
SELECT oarlock.open_pool(@pool, key => @key)
