-- Purpose: a worker's sign of life; returns the state wanted of the worker, its runs with open controls, and a count and a
--          checksum of the claims that the database has for it
-- Index: workers_pkey; worker_orders_pkey; runs_pkey; controls_open, once for each run that ever had a control
-- Locks: the worker's own row in workers; no fence, so that a heartbeat never waits for a flush
WITH alive AS (
    UPDATE oarlock.workers w SET beat = w.beat + 1, beat_at = clock_timestamp(), busy = @busy, waiting = @waiting, runs = @runs,
           unfit = @unfit, unfit_since = CASE WHEN @unfit <> '' THEN clock_timestamp() - @unfit_ms::bigint * interval '1 millisecond' END
     WHERE w.worker_id = @worker AND w.state IN ('live', 'draining')
    RETURNING coalesce((SELECT o.desired FROM oarlock.worker_orders o WHERE o.worker_id = w.worker_id ORDER BY o.order_id DESC LIMIT 1), 'live') AS desired
), held AS MATERIALIZED ( -- by key: while a session holds an old snapshot, runs_worker has entries of all runs that the worker ever held. queue/sweep finds runs that the worker does not know of
    SELECT r.run_id, r.inbox, r.claim_id FROM unnest(@held::bigint[]) u (run_id) JOIN oarlock.runs r ON r.run_id = u.run_id
     WHERE r.worker_id IS NOT DISTINCT FROM @worker -- keeps the plan off runs_worker
), mail AS MATERIALIZED (
    SELECT h.run_id, h.inbox FROM held h
     WHERE h.inbox > 0 AND EXISTS (SELECT FROM oarlock.controls c WHERE c.run_id = h.run_id AND c.decided_at IS NULL)
)
SELECT clock_timestamp(), a.desired, (SELECT count(*) FROM held),
       (SELECT coalesce(bit_xor(('x' || encode(substr(uuid_send(h.claim_id), 1, 8), 'hex'))::bit(64)::bigint), 0) FROM held h),
       ARRAY(SELECT m.run_id FROM mail m ORDER BY m.run_id), ARRAY(SELECT m.inbox FROM mail m ORDER BY m.run_id)
  FROM alive a
