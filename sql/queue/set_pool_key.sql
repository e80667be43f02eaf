-- Purpose: gives one key of a pool another number of slots; null gives it the number of the pool
-- Index: pools_pkey, pool_keys_pkey
-- Locks: the pool's row, then the key's row, until the statement is done
SELECT oarlock.set_pool_key(@pool, @key, slots => @slots)
