-- Purpose: what an earlier task of a step put out under a cache key, unless that is too long ago
-- Index: cache_pkey
-- Locks: none
SELECT c.outputs FROM oarlock.cache c
 WHERE c.dag_id = @dag AND c.step = @step AND c.key = @key AND c.expires_at > clock_timestamp()
