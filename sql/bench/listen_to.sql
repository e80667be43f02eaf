-- Purpose: hear what is said on a channel. Only benchmarks send it
-- Index: none
-- Locks: none
LISTEN "{channel}"
