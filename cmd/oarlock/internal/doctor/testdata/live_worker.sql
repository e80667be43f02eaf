INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, schema_version, labels, queues, slots, containment, ttl_ms, channel)
VALUES (gen_random_uuid(), 'w1', 'h', 'b', 1, 'v', (SELECT max(version) FROM oarlock.schema_history), '{}', '{}', 8, 'none', 3600000, 'oarlock_doctor_w1')
