-- Purpose: what a claim behind a limit passed over: the first due run between a lane's floor and the first run it claimed there, which is locked
-- Index: runs_queued, from each lane's floor on
-- Locks: none
SELECT l.lane_id, head.run_at, head.run_id
  FROM unnest(@lanes::int[], @floors::timestamptz[], @froms::bigint[], @ats::timestamptz[], @runs::bigint[]) l (lane_id, floor, first, at, run)
 CROSS JOIN LATERAL (
       SELECT r.run_at, r.run_id FROM oarlock.runs r
        WHERE r.lane_id = l.lane_id AND r.state = 'queued' AND (r.run_at, r.run_id) >= (l.floor, l.first) AND (r.run_at, r.run_id) < (l.at, l.run)
        ORDER BY r.run_at, r.run_id LIMIT 1) head
