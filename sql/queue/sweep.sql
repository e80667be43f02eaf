-- Purpose: finds what polls and looks pass over, which begin where they left off: what was committed late; what has begun and starts in the future, for queue/bring_forward; workers that are gone
--          without a trace but for the runs they hold; and all that the database says this worker holds. While somebody holds an old snapshot, all that is dead is in the way
-- Index: runs_queued, or where a lane is halted runs_begun, below each lane's floor; runs_begun from now on; runs_wake, runs_deadline and agenda_at; runs_worker, for this worker and between those that have fences; fences_pkey
-- Locks: none
WITH RECURSIVE late AS MATERIALIZED (
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
), own AS MATERIALIZED (
    SELECT r.run_id, r.claim_id FROM oarlock.runs r WHERE r.worker_id = @worker
), gap AS ( -- between those that have fences, so that nobody passes over all they ever held
    SELECT w.worker_id AS after, lead(w.worker_id, 1, 'ffffffff-ffff-ffff-ffff-ffffffffffff') OVER (ORDER BY w.worker_id) AS before
      FROM (SELECT '00000000-0000-0000-0000-000000000000'::uuid AS worker_id UNION SELECT f.worker_id FROM oarlock.fences f) w
), holder (before, worker_id) AS ( -- from one to the next by jumps through the index
    SELECT g.before, (SELECT r.worker_id FROM oarlock.runs r WHERE r.worker_id > g.after AND r.worker_id < g.before ORDER BY r.worker_id LIMIT 1)
      FROM gap g
    UNION ALL
    SELECT h.before, (SELECT r.worker_id FROM oarlock.runs r WHERE r.worker_id > h.worker_id AND r.worker_id < h.before ORDER BY r.worker_id LIMIT 1)
      FROM holder h WHERE h.worker_id IS NOT NULL
)
SELECT ARRAY(SELECT l.lane_id FROM late l ORDER BY l.lane_id) AS lanes,
       ARRAY(SELECT l.run_at FROM late l ORDER BY l.lane_id) AS floors,
       ARRAY(SELECT l.run_id FROM late l ORDER BY l.lane_id) AS froms,
       coalesce((SELECT true FROM oarlock.runs r
                  WHERE r.state = 'waiting' AND r.wake_at >= @since AND r.wake_at <= statement_timestamp() - interval '2 s' ORDER BY r.wake_at LIMIT 1),
                (SELECT true FROM oarlock.runs r
                  WHERE r.state = 'queued' AND r.started_at IS NULL AND r.queue_deadline >= @since AND r.queue_deadline <= statement_timestamp() - interval '2 s'
                  ORDER BY r.queue_deadline LIMIT 1),
                (SELECT true FROM oarlock.agenda a
                  WHERE a.at >= @since AND a.at <= statement_timestamp() - interval '2 s' ORDER BY a.at LIMIT 1), false) AS overdue,
       EXISTS (SELECT FROM unnest(@lanes) l (lane_id)
                CROSS JOIN LATERAL (
                      SELECT FROM oarlock.runs r
                       WHERE r.lane_id = l.lane_id AND r.state = 'queued' AND r.epoch > 0 AND r.run_at > statement_timestamp()
                       ORDER BY r.run_at, r.run_id LIMIT 1) r) AS ahead,
       ARRAY(SELECT h.worker_id FROM holder h WHERE h.worker_id IS NOT NULL) AS dead,
       ARRAY(SELECT o.run_id FROM own o) AS runs, ARRAY(SELECT o.claim_id FROM own o) AS claims
