-- Purpose: a page of the schedules that the user may see, by number
-- Index: schedules_pkey; of each, agenda_pkey, fires_pkey backwards, the unfinished runs of the schedule
-- Locks: none
SELECT s.id, s.dag_name, s.name, s.schedule_owner, s.cron, (extract(epoch FROM s.every) * 1000)::bigint, s.at, s.timezone, s.start_at, s.end_at,
       s.except_at, s.params, s.labels, s.overlap_policy, s.at_once, s.catchup, (extract(epoch FROM s.catchup_window) * 1000)::bigint,
       s.catchup_max, (extract(epoch FROM s.jitter) * 1000)::bigint, s.pause_on_failure, s.paused_by, s.paused_at, s.pause_note, s.next_at,
       s.last_at, s.last_outcome, s.last_run, s.last_reason, s.unfinished, s.failures, s.errors, s.error,
       s.backfill_of, s.from_at, s.until_at, s.reprocess, coalesce(s.newest_first, false), s.decided_at, s.held_from, s.dag_removed_at IS NOT NULL
  FROM oarlock.schedule_list(dag => @dag, owner => @owner, rows => @rows, after => @after, name => @name) s
 ORDER BY s.id
