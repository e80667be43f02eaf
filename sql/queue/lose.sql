-- Purpose: marks a worker as lost and deletes its fences, unless its beat moved; without @beat, whatever its row has. The
--          DELETE waits for statements of the worker in flight. Returns whether the worker is lost, and its name. If the beat
--          moved meanwhile, the caller rolls back
-- Index: fences_pkey, workers_pkey
-- Locks: the fences, then the row in workers: the order in which polls of the worker itself take them
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
