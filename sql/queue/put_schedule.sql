-- Purpose: makes or changes a schedule of this user; a key that its JSON lacks, or has as null, takes the default
-- Index: dags_name_key, schedules_name
-- Locks: the schedule's row and its item of the agenda until the statement is done
SELECT p.schedule_id, p.next_at
  FROM (SELECT @schedule::text::jsonb AS s) given
 CROSS JOIN LATERAL oarlock.put_schedule(@dag, s ->> 'name', cron => s ->> 'cron', every => (s ->> 'every')::interval, at => (s ->> 'at')::timestamptz,
       timezone => nullif(s ->> 'timezone', ''), params => s -> 'params', labels => s -> 'labels', overlap_policy => nullif(s ->> 'overlap_policy', ''),
       at_once => nullif((s ->> 'at_once')::int, 0), catchup => (s ->> 'catchup')::bool, catchup_window => (s ->> 'catchup_window')::interval,
       catchup_max => (s ->> 'catchup_max')::int, jitter => (s ->> 'jitter')::interval, start_at => (s ->> 'start')::timestamptz,
       end_at => (s ->> 'end')::timestamptz, except_at => CASE WHEN s ? 'except' THEN ARRAY(SELECT jsonb_array_elements_text(s -> 'except')) END,
       pause_on_failure => (s ->> 'pause_on_failure')::int) p
