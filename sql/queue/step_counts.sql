-- Purpose: how many steps runs have that have counted no task yet
-- Index: runs_pkey, dag_versions_pkey
-- Locks: none
SELECT r.run_id, jsonb_array_length(v.spec -> 'steps')
  FROM oarlock.runs r
  JOIN oarlock.dag_versions v USING (dag_id, version)
 WHERE r.run_id = ANY (@runs::bigint[])
