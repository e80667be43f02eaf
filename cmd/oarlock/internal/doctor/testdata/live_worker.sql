INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, kind)
VALUES (gen_random_uuid(), 'w1', 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 3600000, 'oarlock_doctor_w1', 1)
