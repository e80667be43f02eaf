-- Worker w1 gives signs of life, and claims nothing.
WITH w AS (
    INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, beat, started_at, unfit)
    SELECT md5(n)::uuid, n, 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 300000, n, 720, now() - interval '1 h', 'no room' FROM unnest('{w1}'::text[]) n
    RETURNING worker_id)
INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process}' FROM w

-- w1 is quiet.
UPDATE oarlock.workers SET beat_at = now() - interval '40 s'

-- w1 holds the run.
UPDATE oarlock.runs SET state = 'running', worker_id = md5('w1')::uuid, claim_id = gen_random_uuid(), epoch = 1, started_at = now(), queue_deadline = NULL

-- w2 watches w1.
INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, beat, started_at)
VALUES (md5('w2')::uuid, 'w2', 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 300000, 'w2', 720, now() - interval '1 h')

-- The lease of w1 is over.
UPDATE oarlock.workers SET beat_at = now() - interval '6 min' WHERE name = 'w1'

-- The lease of w2 is over too, and w3 claims nothing.
WITH w2 AS (UPDATE oarlock.workers SET beat_at = now() - interval '6 min' WHERE name = 'w2')
INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, beat, started_at, unfit, unfit_since)
VALUES (md5('w3')::uuid, 'w3', 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 300000, 'w3', 720, now() - interval '1 h', 'no connection', now() - interval '32 s')

-- w3 is stopped.
UPDATE oarlock.workers SET state = 'gone', ended_at = now(), unfit = '' WHERE name = 'w3'

-- The database was restored elsewhere.
UPDATE oarlock.installation SET served_at = now(), database = 1

-- w1 and w2 are back, and the run is queued again.
WITH back AS (UPDATE oarlock.workers SET beat_at = now(), unfit = '')
UPDATE oarlock.runs SET state = 'queued', worker_id = NULL, claim_id = NULL
