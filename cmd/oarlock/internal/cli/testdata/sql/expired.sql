-- a DAG that keeps one run, and a worker that ended long ago
SELECT oarlock.put_dag('{"name": "few", "steps": [{"id": "a", "run": "true"}], "retention": {"days": 0, "runs": 1}}', '', 'h', '{process}');
INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, epoch, started_at, finished_at)
SELECT v.dag_id, 1, v.lane_id, CASE n WHEN 5 THEN 'failed' WHEN 4 THEN 'canceled' ELSE 'succeeded' END, now(), now(), 'sql', 0, session_user, 1,
       now() - interval '10 minutes', now() - interval '10 minutes' + n * interval '1 minute'
  FROM oarlock.dag_versions v, generate_series(1, 5) n;
WITH w AS (INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, state, ended_at)
VALUES ('6f1c1c56-1b0e-4a52-9a0e-0d6f4c1f0a01', 'old', 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 30000, 'c', 'gone', now() - interval '8 days') RETURNING worker_id)
INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{}' FROM w;
