-- Purpose: hear of what bench/arrive_and_tell made. Only benchmarks send it
-- Index: none
-- Locks: none
LISTEN bench_arrivals
