-- Purpose: whether runs are queued or driven still. Only benchmarks send it, often: it must cost nothing
-- Index: runs_queued, runs_worker
-- Locks: none
SELECT EXISTS (SELECT FROM oarlock.runs r WHERE r.worker_id IS NOT NULL)
    OR EXISTS (SELECT FROM oarlock.lanes l, LATERAL (SELECT FROM oarlock.runs r WHERE r.lane_id = l.lane_id AND r.state = 'queued' LIMIT 1) q)
