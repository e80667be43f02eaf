-- Purpose: receives the notifications of bench/arrive_and_tell. Only benchmarks send it
-- Index: none
-- Locks: none
LISTEN bench_arrivals
