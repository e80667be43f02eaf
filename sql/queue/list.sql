-- Purpose: a page of runs, newest first; takes the newest runs of each state, so that each state uses its own index
-- Index: runs_dag, runs_rare, runs_queued, runs_parent or runs_pkey, by the filters: see oarlock.page_of_runs
-- Locks: none
SELECT r.id, r.uid, r.dag, r.version, r.generation, r.state, r.reason, r.tolerated, r.queue, r.priority, r.params, r.labels, r.run_key,
       r.trigger, r.epoch, r.worker, r.submitted_by, r.parent, r.root, r.retry_of, r.counts, r.run_at, r.logical_at, r.created_at,
       r.started_at, r.finished_at, r.schedule, r.previous_logical_at, r.actor
  FROM unnest(@states::text[]) asked (state)
 CROSS JOIN LATERAL oarlock.run_list(dag => @dag::text, state => asked.state, queue => @queue::text, labels => @labels::text::jsonb,
       parent => @parent::bigint, since => @since::timestamptz, before => @before::bigint, rows => @rows::int) r
 ORDER BY r.id DESC LIMIT @rows::int
