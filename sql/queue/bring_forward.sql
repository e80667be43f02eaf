-- Purpose: has runs that have begun be due now where their start lies ahead: the server's clock was ahead when they were accepted, and what has begun goes on
-- Index: runs_begun, in each lane from now on; runs_pkey
-- Locks: those runs FOR NO KEY UPDATE, passing over locked ones
WITH ahead AS MATERIALIZED (
    SELECT r.run_id FROM unnest(@lanes::int[]) l (lane_id)
     CROSS JOIN LATERAL (
           SELECT b.run_id FROM oarlock.runs b
            WHERE b.lane_id = l.lane_id AND b.state = 'queued' AND b.epoch > 0 AND b.run_at > statement_timestamp()
            ORDER BY b.run_at, b.run_id LIMIT @batch FOR NO KEY UPDATE SKIP LOCKED) r
     LIMIT @batch
), moved AS (
    UPDATE oarlock.runs r SET run_at = statement_timestamp()
     WHERE r.run_id = ANY (ARRAY(SELECT a.run_id FROM ahead a)) AND r.state || '' = 'queued' -- by key
    RETURNING r.run_id, r.lane_id, r.run_at
), lane AS (
    SELECT m.lane_id, count(*)::int AS n, min(m.run_at) AS at, min(m.run_id) AS run FROM moved m GROUP BY m.lane_id ORDER BY m.lane_id
), reset AS (
    SELECT oarlock.come_back(n.lane_id, n.at, n.run), oarlock.wake(n.lane_id, n.n, 2) FROM lane n
)
SELECT (SELECT count(*) FROM moved) + 0 * (SELECT count(*) FROM reset)
