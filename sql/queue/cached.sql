-- Purpose: what an earlier task of a step put out under a cache key, unless that is too long ago; of the run's submitter, or shared
-- Index: runs_pkey, cache_pkey
-- Locks: none
SELECT c.outputs
  FROM oarlock.runs r
  JOIN oarlock.cache c ON c.dag_id = r.dag_id AND c.submitter = CASE WHEN @shared::bool THEN '' ELSE r.submitted_by END
 WHERE r.run_id = @run AND c.step = @step AND c.key = @key AND c.expires_at > clock_timestamp()
