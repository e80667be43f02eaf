-- Purpose: where a version of a DAG was put from last
-- Index: dag_versions_pkey
-- Locks: none
SELECT v.source_path FROM oarlock.dag_versions v WHERE v.dag_id = $1 AND v.version = $2
