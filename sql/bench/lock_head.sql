-- Purpose: the part of a poll that looks at the head of a lane and locks it, and the buffers it took. Only benchmarks send it
-- Index: runs_queued
-- Locks: runs at the head of the lane, passing over locked ones
EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)
SELECT r.run_id FROM oarlock.runs r
 WHERE r.lane_id = $1 AND r.stage = 2 AND r.state = 'queued' AND r.ready_at <= statement_timestamp()
 ORDER BY r.ready_at, r.run_id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
