-- Purpose: the workers at work, then the workers that ended lately
-- Index: none: a table of a few rows, pruned after a week; worker_offers_pkey; runs_worker
-- Locks: none
SELECT w.worker_id, w.name, w.host, w.boot_id, w.pid, w.version, w.labels, w.queues,
       (SELECT o.offers FROM oarlock.worker_offers o WHERE o.worker_id = w.worker_id), w.slots, w.containment, w.ttl_ms,
       w.state, coalesce((SELECT o.desired FROM oarlock.worker_orders o WHERE o.worker_id = w.worker_id ORDER BY o.order_id DESC LIMIT 1), 'live'),
       w.beat, w.beat_at, greatest(extract(epoch FROM clock_timestamp() - w.beat_at) * 1000, 0)::bigint,
       w.busy, w.waiting, w.unfit, w.unfit_since,
       CASE WHEN w.state IN ('live', 'draining') THEN (SELECT count(*) FROM oarlock.runs r WHERE r.worker_id = w.worker_id) ELSE 0 END, w.started_at, w.ended_at,
       oarlock.quiet_since(w) IS NOT NULL,
       CASE WHEN oarlock.quiet_since(w) IS NOT NULL THEN extract(epoch FROM oarlock.taken_over_by(w, (SELECT oarlock.watched_since())) - clock_timestamp()) * 1000 END::bigint
  FROM oarlock.workers w
 ORDER BY w.state NOT IN ('live', 'draining'), w.ended_at DESC, w.name, w.started_at LIMIT @rows
