-- Purpose: asks for many runs by the function, as any client would. Only benchmarks send it
-- Index: dags_name_key, dag_versions_pkey
-- Locks: new rows
SELECT oarlock.enqueue_many($1, $2)
