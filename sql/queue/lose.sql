-- Purpose: a worker is lost, unless its beat moved; without a beat it is lost whatever its row says. Takes its fences, which waits for what it has in flight
-- Index: fences_pkey, workers_pkey
-- Locks: its fences, then its row in workers: in the order of its own polls. Returns whether it is, and its name; where the beat moved meanwhile: roll back
WITH taken AS (
    DELETE FROM oarlock.fences f
     WHERE f.worker_id = @worker
       AND EXISTS (SELECT FROM oarlock.workers w WHERE w.worker_id = @worker
                      AND (@beat::bigint IS NULL OR w.state IN ('live', 'draining') AND w.beat = @beat))
    RETURNING f.channel
), lost AS (
    UPDATE oarlock.workers w
       SET state = CASE WHEN w.state = 'gone' THEN 'gone' ELSE 'lost' END, ended_at = coalesce(w.ended_at, clock_timestamp()), hungry = 0, least = NULL, busy = 0, waiting = 0, runs = 0,
           replaced_by = coalesce(@by::uuid, w.replaced_by)
     WHERE w.worker_id = @worker AND (SELECT count(*) FROM taken) >= 0
       AND (@beat IS NULL OR w.state IN ('live', 'draining') AND w.beat = @beat)
    RETURNING w.name
)
SELECT EXISTS (SELECT FROM lost), coalesce((SELECT l.name FROM lost l), '')
