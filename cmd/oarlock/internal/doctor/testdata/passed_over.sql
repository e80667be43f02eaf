-- A run waits for two minutes beside a worker with room.
SELECT oarlock.put_dag('{"name": "few", "steps": [{"id": "a", "run": "true"}]}', '', 'h', '{process}');
INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, ready_at, created_at, logical_at, trigger, root_id, submitted_by)
SELECT v.dag_id, 1, v.lane_id, 'queued', now() - interval '2 min', now() - interval '2 min', now() - interval '2 min', now(), 'sql', 0, session_user FROM oarlock.dag_versions v;
WITH w AS (
    INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, beat, started_at, hungry)
    SELECT md5(n)::uuid, n, 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 300000, n, 720, now() - interval '1 h', 8 FROM unnest('{w1}'::text[]) n
    RETURNING worker_id)
INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process}' FROM w

-- It claims nothing.
UPDATE oarlock.workers SET unfit = 'no connection'

-- It is quiet.
UPDATE oarlock.workers SET unfit = '', beat_at = now() - interval '40 s'
