-- Purpose: finds what polls pass over, which begin where they left off: what was committed late, and what has begun and starts in the future, for queue/bring_forward. While somebody holds an old snapshot, all that is dead is in the way
-- Index: runs_queued, or where a lane is halted runs_begun, below each lane's floor; runs_begun from now on; runs_wake and runs_deadline, below where nothing was due last
-- Locks: none
WITH late AS MATERIALIZED (
    SELECT l.lane_id, r.run_at, r.run_id
      FROM unnest(@lanes::int[], @floors::timestamptz[], @froms::bigint[], @halted::bool[]) l (lane_id, floor, first, halted)
     CROSS JOIN LATERAL (
           (SELECT r.run_at, r.run_id FROM oarlock.runs r
             WHERE NOT l.halted AND r.lane_id = l.lane_id AND r.state = 'queued'
               AND r.run_at >= @since::timestamptz AND (r.run_at, r.run_id) < (l.floor, l.first)
             ORDER BY r.run_at, r.run_id LIMIT 1)
           UNION ALL
           (SELECT r.run_at, r.run_id FROM oarlock.runs r
             WHERE l.halted AND r.lane_id = l.lane_id AND r.state = 'queued' AND r.epoch > 0
               AND r.run_at >= @since AND (r.run_at, r.run_id) < (l.floor, l.first)
               AND r.started_at IS NOT NULL
             ORDER BY r.run_at, r.run_id LIMIT 1)) r
)
SELECT ARRAY(SELECT l.lane_id FROM late l ORDER BY l.lane_id) AS lanes,
       ARRAY(SELECT l.run_at FROM late l ORDER BY l.lane_id) AS floors,
       ARRAY(SELECT l.run_id FROM late l ORDER BY l.lane_id) AS froms,
       (SELECT r.wake_at FROM oarlock.runs r
         WHERE r.state = 'waiting' AND r.wake_at >= @since AND r.wake_at <= @slept::timestamptz ORDER BY r.wake_at LIMIT 1) AS wakes,
       (SELECT r.queue_deadline FROM oarlock.runs r
         WHERE r.state = 'queued' AND r.started_at IS NULL AND r.queue_deadline >= @since AND r.queue_deadline <= @waited::timestamptz ORDER BY r.queue_deadline LIMIT 1) AS expires,
       EXISTS (SELECT FROM unnest(@lanes) l (lane_id)
                CROSS JOIN LATERAL (
                      SELECT FROM oarlock.runs r
                       WHERE r.lane_id = l.lane_id AND r.state = 'queued' AND r.epoch > 0 AND r.run_at > statement_timestamp()
                       ORDER BY r.run_at, r.run_id LIMIT 1) r) AS ahead
