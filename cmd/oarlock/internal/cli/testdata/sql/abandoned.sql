-- A run that waits, and workers that are gone: one ended in order, the other gave its last sign of life an hour ago.
SELECT oarlock.put_dag('{"name": "few", "steps": [{"id": "a", "run": "true"}]}', '', 'h', '{process}');
SELECT oarlock.enqueue('few');
WITH w AS (INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, state, ended_at, beat_at)
SELECT gen_random_uuid(), s.state, 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 30000, 'c', s.state, CASE s.state WHEN 'gone' THEN now() END, now() - interval '1 hour'
  FROM (VALUES ('gone'), ('live')) s (state) RETURNING worker_id)
INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{}' FROM w;
