-- Purpose: registers a worker, with its offers and its fences. Changes nothing if the worker is registered already, or if the
--          schema has come to exclude its program
-- Index: workers_pkey, worker_offers_pkey, fences_pkey; none for schema_history, which has a row for each version
-- Locks: none but the new rows; the INSERT waits for a migration that excludes programs, and takes its snapshot afterwards: see
--        migrate/lock_workers
WITH announced AS (
    INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, schema_version, labels, queues, slots, containment, ttl_ms, channel, only_run)
    SELECT @worker::uuid, @name, @host, @boot, @pid::int, @version, @schema::bigint, @labels::jsonb, @queues::text[], @slots::int, @containment, @ttl::bigint,
           @channel, @only::bigint
     WHERE NOT EXISTS (SELECT FROM oarlock.schema_history h WHERE h.programs_from > @schema)
    ON CONFLICT (worker_id) DO NOTHING
    RETURNING worker_id
), offering AS (
    INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT a.worker_id, @offers::text[] FROM announced a
)
INSERT INTO oarlock.fences (worker_id, channel)
SELECT a.worker_id, c FROM announced a, unnest('{commit,claim,logs,settle,permits}'::text[]) c
