-- Purpose: a page of runs, newest first, for a page that shows it. Filters that no index covers are applied to at most @look
--          runs. If that search ends early and finds no run, one row without a run comes back
-- Index: runs_dag, runs_rare, runs_queued, runs_parent or runs_pkey, by the filters: see oarlock.run_page
-- Locks: none
SELECT r.id, r.uid, r.dag, r.version, r.generation, r.state, r.reason, r.tolerated, r.queue, r.priority, r.params, r.labels, r.run_key,
       r.trigger, r.epoch, r.worker, r.submitted_by, r.parent, r.root, r.retry_of, r.counts, r.run_at, r.logical_at, r.created_at,
       r.started_at, r.finished_at, r.schedule, r.previous_logical_at, r.actor, p.stop
  FROM oarlock.run_page(@dag::text, @states::text[], @queue::text, @labels::text::jsonb, @parent::bigint, @since::timestamptz,
       @before::bigint, @rows::int, @look::int) p
  LEFT JOIN LATERAL unnest(p.ids) found (id) ON true
  LEFT JOIN LATERAL oarlock.run_status(found.id) r ON true
 WHERE r.id IS NOT NULL OR p.stop IS NOT NULL
 ORDER BY r.id DESC NULLS LAST
