-- Purpose: how many fire times had each outcome
-- Index: none
-- Locks: none
SELECT f.outcome, coalesce(sum(f.count), 0)::int FROM oarlock.fires f GROUP BY f.outcome
