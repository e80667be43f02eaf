-- Purpose: asks for a run by the function, as any client would. Only benchmarks send it
-- Index: dags_name_key, dag_versions_pkey
-- Locks: a new row
SELECT oarlock.enqueue($1, $2)
