-- Purpose: a version of a DAG as it was put
-- Index: dag_versions_pkey
-- Locks: none
SELECT v.spec, v.source_path FROM oarlock.dag_versions v WHERE v.dag_id = $1 AND v.version = $2
