-- Purpose: the keys of a pool that have a number of slots of their own, or are closed
-- Index: pool_keys_pkey, over the keys of the pool
-- Locks: none
SELECT k.key, k.slots, CASE WHEN k.closed_until > clock_timestamp() THEN k.closed_by END,
       CASE WHEN k.closed_until > clock_timestamp() THEN nullif(k.closed_until, 'infinity') END
  FROM oarlock.pool_keys k
 WHERE k.pool = @pool AND (@key::text IS NULL OR k.key = @key) AND (k.slots IS NOT NULL OR k.closed_until > clock_timestamp())
 ORDER BY k.key LIMIT @rows
