-- Purpose: does what is due on the agenda; a row for each decision, and one of kind `more` where there is more
-- Index: agenda_at, from the floor; then by key
-- Locks: rows of agenda, schedules, one after the other, all passing over what is locked; runs of a schedule that cancels, for lock_timeout at most
SELECT a.kind, coalesce(a.dag, ''), coalesce(a.schedule, ''), coalesce(a.outcome, ''), coalesce(a.times, 0), coalesce(a.late_ms, 0), coalesce(a.message, '')
  FROM oarlock.attend(@floor::timestamptz, @batch::int) a
