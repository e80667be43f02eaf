-- Runs $1 to $2 of the only DAG, an hour for every thousand: nearly all succeeded, some failed, were canceled or wait.
INSERT INTO oarlock.runs (run_id, dag_id, version, lane_id, state, reason, run_at, ready_at, logical_at, trigger, root_id, submitted_by, created_at,
                          started_at, finished_at, epoch)
OVERRIDING SYSTEM VALUE
SELECT i, v.dag_id, v.version, v.lane_id, s.state, CASE s.state WHEN 'failed' THEN 'step s9 failed: exit 3' ELSE '' END, at, at, at, 'sql', i,
       session_user, at, CASE WHEN s.state <> 'queued' THEN at END, CASE WHEN s.state <> 'queued' THEN at END,
       CASE WHEN s.state <> 'queued' THEN 1 ELSE 0 END
  FROM oarlock.dag_versions v, generate_series($1::bigint, $2::bigint) i,
       LATERAL (SELECT now() - (20000000 - i) * interval '1 hour' / 1000 AS at,
                       CASE WHEN i % 50 = 7 THEN 'failed' WHEN i % 10000 = 11 THEN 'canceled' WHEN i % 40 = 13 THEN 'queued'
                            ELSE 'succeeded' END AS state) s
