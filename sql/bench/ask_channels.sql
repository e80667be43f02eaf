-- Purpose: on which channels workers are told of things. Only benchmarks send it
-- Index: none
-- Locks: none
SELECT DISTINCT w.channel FROM oarlock.workers w WHERE w.state = 'live'
