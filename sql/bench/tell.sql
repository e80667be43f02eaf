-- Purpose: say something on a channel, behind everything that was said before. Only benchmarks send it
-- Index: none
-- Locks: none
SELECT pg_notify($1, $2)
