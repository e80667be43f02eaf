-- Purpose: the lane of a DAG's newest version. Only benchmarks send it
-- Index: dags_name_key
-- Locks: none
SELECT v.lane_id FROM oarlock.dags d JOIN oarlock.dag_versions v USING (dag_id) WHERE d.name = $1 ORDER BY v.version DESC LIMIT 1
