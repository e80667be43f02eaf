-- Purpose: asks for many runs by a plain insert, as any client would. Only benchmarks send it
-- Index: dags_name_key, dag_versions_pkey
-- Locks: new rows
INSERT INTO oarlock.inbox (dag, params) SELECT $1, p FROM unnest($2::jsonb[]) p
