-- Purpose: closes a pool, or one key of it, for a time, or until it is opened
-- Index: pools_pkey, pool_keys_pkey
-- Locks: the pool's row, then the key's row, until the statement is done
SELECT oarlock.close_pool(@pool, key => @key, until => coalesce(clock_timestamp() + @for_ms::bigint * interval '1 millisecond', 'infinity'))
