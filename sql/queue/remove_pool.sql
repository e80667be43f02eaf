-- Purpose: removes a pool; no row means that there is none of this name
-- Index: pools_pkey, permits_pkey; dags_pkey and dag_versions_pkey, over the current DAGs
-- Locks: the pool's row, and the rows of its keys, until the statement is done
SELECT oarlock.remove_pool(p.name) FROM oarlock.pools p WHERE p.name = @pool
