-- Purpose: asks for a new run of a finished one
-- Index: runs_pkey, dags_pkey, dag_versions_pkey
-- Locks: none but the locks of the new row
SELECT oarlock.rerun(@run, @params::text::jsonb, @latest)
