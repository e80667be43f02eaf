-- Purpose: attends to due items of the agenda; returns a row for each decision, and one of kind `more` if due items are left
-- Index: agenda_at, from the floor; then by key
-- Locks: rows of agenda and schedules, one after the other, passing over locked ones; runs of a schedule that cancels, for
--        lock_timeout at most
SELECT a.kind, coalesce(a.dag, ''), coalesce(a.schedule, ''), coalesce(a.outcome, ''), coalesce(a.times, 0), coalesce(a.late_ms, 0), coalesce(a.message, '')
  FROM oarlock.attend(@floor::timestamptz, @batch::int) a
