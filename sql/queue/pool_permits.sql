-- Purpose: the permits of a pool: first the ones that workers have, then the ones that workers wait for, in the order of service
-- Index: none of permits, of which all rows are read: a row for each body under way, and for each free slot of a worker; workers_pkey, runs_pkey, dags_pkey
-- Locks: none
SELECT p.key, p.worker, p.run, p.dag, p.weight, p.since, p.granted_at
  FROM oarlock.pool_permits(@pool, key => @key, rows => @rows) WITH ORDINALITY p (key, worker, run, dag, weight, since, granted_at, place)
 ORDER BY p.place
