-- Purpose: asks for a run by a plain insert, as any client would. Only benchmarks send it
-- Index: dags_name_key, dag_versions_pkey
-- Locks: a new row
INSERT INTO oarlock.inbox (dag, params) VALUES ($1, $2)
