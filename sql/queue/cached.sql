-- Purpose: the outputs that an earlier task of a step stored under a cache key, unless they have expired: of a run of the same
--          submitter, or shared
-- Index: runs_pkey, cache_pkey
-- Locks: none
SELECT c.outputs
  FROM oarlock.runs r
  JOIN oarlock.cache c ON c.dag_id = r.dag_id AND c.submitter = CASE WHEN @shared::bool THEN '' ELSE r.submitted_by END
 WHERE r.run_id = @run AND c.step = @step AND c.key = @key AND c.expires_at > clock_timestamp()
