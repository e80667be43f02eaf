-- A lost worker with a successor of the same name, and a lost worker without one.
INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, state, ttl_ms, busy, runs, channel, ended_at)
SELECT gen_random_uuid(), w.name, 'h', 'b', 1, 'v', '{}', '{}', 4, 'none', w.state, 30000, 2, 2, 'c', w.ended_at
  FROM (VALUES ('w1', 'lost', now()), ('w1', 'live', NULL), ('w9', 'lost', now()), ('w5', 'gone', now())) w (name, state, ended_at);
