-- Purpose: makes a pool, or changes all settings of it; null takes the default
-- Index: pools_pkey; dags_pkey and dag_versions_pkey, over the current DAGs
-- Locks: the pool's row until the statement is done
SELECT oarlock.set_pool(@pool, slots => @slots, per_key => @per_key, rate => @rate, per => @per_ms::bigint * interval '1 millisecond',
       burst => @burst, note => @note)
