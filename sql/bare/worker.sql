-- Purpose: a worker that claims nothing, with its fence. Only benchmarks send it
-- Index: workers_pkey, worker_offers_pkey, fences_pkey
-- Locks: new rows
WITH worker AS (
    INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, started_at)
    VALUES ($1, 'bare', 'bare', '', 0, '', '{}', '{none}', 0, 'none', 86400000, 'bare', clock_timestamp())
), offering AS (
    INSERT INTO oarlock.worker_offers (worker_id, offers) VALUES ($1, '{}')
)
INSERT INTO oarlock.fences (worker_id, channel) VALUES ($1, 'commit')
