-- Purpose: the newest runs of some DAGs: how each ended, how long it waited and how long it took
-- Index: dags_name_key, then runs_dag from its end
-- Locks: none
SELECT d.name, r.run_id, r.state, r.started_at,
       coalesce(extract(epoch FROM greatest(r.started_at - r.run_at, interval '0')) * 1000, 0)::bigint AS waited_ms,
       r.finished_at
  FROM oarlock.dags d
 CROSS JOIN LATERAL (
       SELECT o.run_id, o.state, o.run_at, o.started_at, o.finished_at
         FROM oarlock.runs o WHERE o.dag_id = d.dag_id
        ORDER BY o.run_id DESC LIMIT @rows::int) r
 WHERE d.name = ANY (@dags::text[])
 ORDER BY d.name, r.run_id
