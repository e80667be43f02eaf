-- Purpose: announces a worker, with its fences; the same worker again changes nothing
-- Index: workers_pkey, fences_pkey
-- Locks: none but the new rows
WITH announced AS (
    INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, offers, slots, containment, ttl_ms, channel)
    VALUES (@worker, @name, @host, @boot, @pid, @version, @labels, @queues, @offers, @slots, @containment, @ttl, @channel)
    ON CONFLICT (worker_id) DO NOTHING
    RETURNING worker_id
)
INSERT INTO oarlock.fences (worker_id, channel)
SELECT a.worker_id, c FROM announced a, unnest('{commit,claim,logs,settle}'::text[]) c
