-- Purpose: what a worker looks after beside its own runs: who else is there, who left runs behind, whose time has come, and whether something is to be claimed
-- Index: workers and fences, small tables, whole; lanes_pkey and worker_offers_pkey, for lanes of runs that wait for slots here; runs_wake, runs_deadline and agenda_at, from where nothing was due last; runs_queued, or where a lane is halted runs_begun, from each lane's floor on
-- Locks: its own workers row, only where what people see there changes
WITH shown AS (
    UPDATE oarlock.workers w SET busy = @busy, waiting = @waiting
     WHERE w.worker_id = @worker AND w.state = 'live' AND (w.busy, w.waiting) <> (@busy::int, @waiting::int)
), head AS MATERIALIZED ( -- the first due run of each lane
    SELECT
      FROM unnest(@lanes::int[], @floors::timestamptz[], @froms::bigint[], @halted::bool[]) l (lane_id, floor, first, halted)
     CROSS JOIN LATERAL (
           (SELECT FROM oarlock.runs q
             WHERE NOT l.halted AND q.lane_id = l.lane_id AND q.state = 'queued'
               AND (q.run_at, q.run_id) >= (l.floor, l.first) AND q.run_at <= statement_timestamp()
             ORDER BY q.run_at, q.run_id LIMIT 1)
           UNION ALL
           (SELECT FROM oarlock.runs b
             WHERE l.halted AND b.lane_id = l.lane_id AND b.state = 'queued' AND b.epoch > 0
               AND (b.run_at, b.run_id) >= (l.floor, l.first) AND b.run_at <= statement_timestamp() AND b.started_at IS NOT NULL
             ORDER BY b.run_at, b.run_id LIMIT 1)) r
), peer AS (
    SELECT w.worker_id, w.beat, w.ttl_ms, w.state = 'live' AND w.unfit = '' AND w.only_run IS NULL AS live FROM oarlock.workers w
     WHERE w.state IN ('live', 'draining') AND w.worker_id <> @worker
), shared AS ( -- of the lanes of runs that wait for slots here, those that another worker may serve, as in queue/lanes
    SELECT l.lane_id, bool_or(w.hungry > 0) AS open
      FROM oarlock.lanes l
      JOIN peer p ON p.live AND p.worker_id <> ALL (@quiet::uuid[])
      JOIN oarlock.workers w ON w.worker_id = p.worker_id AND (w.queues = '{}' OR l.queue = ANY (w.queues)) AND w.labels @> l.selector AND w.slots >= l.slots
       AND (SELECT o.offers FROM oarlock.worker_offers o WHERE o.worker_id = w.worker_id) @> l.needs
     WHERE l.lane_id = ANY (@stalled::int[])
     GROUP BY l.lane_id
)
SELECT statement_timestamp() AS now,
       (SELECT t.terms FROM oarlock.claim_terms t) <> @terms OR EXISTS (SELECT FROM head) AS due,
       (SELECT true FROM oarlock.runs r
         WHERE r.state = 'waiting' AND r.wake_at > @slept::timestamptz AND r.wake_at <= statement_timestamp() ORDER BY r.wake_at LIMIT 1) IS NOT NULL AS wakes,
       (SELECT true FROM oarlock.runs r
         WHERE r.state = 'queued' AND r.started_at IS NULL AND r.queue_deadline > @waited::timestamptz AND r.queue_deadline <= statement_timestamp() ORDER BY r.queue_deadline LIMIT 1) IS NOT NULL AS expires,
       (SELECT a.at FROM oarlock.agenda a
         WHERE a.at > @attended::timestamptz AND a.at <= statement_timestamp() ORDER BY a.at LIMIT 1) AS agenda,
       ARRAY(SELECT f.worker_id FROM oarlock.fences f JOIN oarlock.workers w ON w.worker_id = f.worker_id AND w.state IN ('lost', 'gone')) AS dead,
       (SELECT array_agg(p.worker_id ORDER BY p.worker_id) FROM peer p) AS peers,
       (SELECT array_agg(p.beat ORDER BY p.worker_id) FROM peer p) AS beats,
       (SELECT array_agg(p.ttl_ms ORDER BY p.worker_id) FROM peer p) AS ttls,
       (SELECT array_agg(p.live ORDER BY p.worker_id) FROM peer p) AS lives,
       ARRAY(SELECT s.lane_id FROM shared s ORDER BY s.lane_id) AS shared,
       ARRAY(SELECT s.lane_id FROM shared s WHERE s.open ORDER BY s.lane_id) AS open
