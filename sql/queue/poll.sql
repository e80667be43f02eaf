-- Purpose: claims due runs of the lanes that a worker serves, best lanes first, and says where the next poll begins. Where @full, no slot is free or about to be: then
--          it claims what came back and may need none, and leaves alone what waits for a slot
-- Index: runs_queued, from each lane's floor on; runs_begun, in place of it where a lane is halted; runs_roused, where @full; runs_pkey; returns_pkey, from the last poll on; fences_pkey, workers_pkey
-- Locks: the worker's claim fence FOR NO KEY UPDATE, then each run it claims, passing over those that are locked; its own workers row, only where what it tells others changes
WITH fence AS MATERIALIZED (
    SELECT f.worker_id FROM oarlock.fences f JOIN oarlock.workers w ON w.worker_id = f.worker_id AND w.state = 'live'
     WHERE f.worker_id = @worker AND f.channel = 'claim'
       FOR NO KEY UPDATE OF f
), back AS MATERIALIZED ( -- below which place of each lane nothing came back by transactions that the last poll did not see
    SELECT r.lane_id, min(r.run_at) AS at, min(r.run_id) AS run
      FROM (SELECT r.lane_id, r.run_at, r.run_id FROM oarlock.returns r
             WHERE r.xid >= pg_snapshot_xmax(@seen::pg_snapshot) AND r.xid < pg_snapshot_xmax(pg_current_snapshot()) -- a copy of another server's rows may have any
            UNION ALL
            SELECT r.lane_id, r.run_at, r.run_id FROM pg_snapshot_xip(@seen::pg_snapshot) open (xid) JOIN oarlock.returns r USING (xid)) r
     GROUP BY r.lane_id
), lane AS MATERIALIZED ( -- nothing is read of a lane before the fence is held, nor under other terms than the worker knows
    SELECT a.n, a.lane_id, a.limited, a.halted, a.most, l.priority, l.dag_id = 0 AS shared,
           CASE WHEN (b.at, b.run) < (a.floor, a.first) THEN b.at ELSE a.floor END AS floor,
           CASE WHEN (b.at, b.run) < (a.floor, a.first) THEN b.run ELSE a.first END AS first
      FROM fence, unnest(@lanes::int[], @floors::timestamptz[], @froms::bigint[], @most::int[], @limited::bool[], @halted::bool[])
           WITH ORDINALITY a (lane_id, floor, first, most, limited, halted, n)
      JOIN oarlock.lanes l ON l.lane_id = a.lane_id
      LEFT JOIN back b ON b.lane_id = a.lane_id
     WHERE (SELECT t.terms FROM oarlock.claim_terms t) = @terms
     ORDER BY a.n
), picked AS MATERIALIZED ( -- what has begun goes on, whatever is paused; nothing begins of a DAG that is paused or limited in a lane that is not its own. Materialized: in a nested loop the head of a lane would be taken again and again. No sort, which would lock what is not claimed
    SELECT head.run_id
      FROM lane CROSS JOIN LATERAL (
           SELECT due.run_id FROM (
                  SELECT r.run_id FROM oarlock.runs r
                   WHERE NOT @full::bool AND NOT lane.halted AND r.lane_id = lane.lane_id AND r.state = 'queued'
                     AND (r.run_at, r.run_id) >= (lane.floor, lane.first) AND r.run_at <= statement_timestamp()
                     AND (r.dag_id <> ALL (@held::bigint[]) OR r.started_at IS NOT NULL)
                   ORDER BY r.run_at, r.run_id LIMIT least(@want, lane.most) FOR NO KEY UPDATE SKIP LOCKED) due
           UNION ALL
           SELECT begun.run_id FROM (
                  SELECT r.run_id FROM oarlock.runs r
                   WHERE NOT @full AND lane.halted AND r.lane_id = lane.lane_id AND r.state = 'queued' AND r.epoch > 0
                     AND (r.run_at, r.run_id) >= (lane.floor, lane.first) AND r.run_at <= statement_timestamp()
                     AND r.started_at IS NOT NULL
                   ORDER BY r.run_at, r.run_id LIMIT @want FOR NO KEY UPDATE SKIP LOCKED) begun
           UNION ALL
           SELECT roused.run_id FROM (
                  SELECT r.run_id FROM oarlock.runs r
                   WHERE @full AND r.lane_id = lane.lane_id AND r.state = 'queued' AND r.epoch > 0 AND NOT r.slot_wanted
                     AND (r.run_at, r.run_id) >= (lane.floor, lane.first) AND r.started_at IS NOT NULL
                   ORDER BY r.run_at, r.run_id LIMIT @want FOR NO KEY UPDATE SKIP LOCKED) roused
           ) head
     WHERE NOT lane.limited
     LIMIT @want::int
), claimed AS (
    UPDATE oarlock.claims c
       SET state = 'running', claim_id = p.claim_id, worker_id = @worker, epoch = c.epoch + 1, wake_at = NULL,
           started_at = coalesce(c.started_at, date_trunc('milliseconds', statement_timestamp())) -- so that its driver need not write the row when it begins
      FROM unnest(ARRAY(SELECT p.run_id FROM picked p), @claims::uuid[]) WITH ORDINALITY p (run_id, claim_id, n)
     WHERE c.run_id = p.run_id -- by key alone: planned on an empty table, a plan by state would go through all that is queued for each run
    RETURNING (c.started_at <> date_trunc('milliseconds', statement_timestamp()))::int AS begun, c.*, p.n
), told AS ( -- who wakes workers asks whether they are hungry, and what their tasks rank: each change would be one more dead row for those who ask
    UPDATE oarlock.workers w SET hungry = @free - h.n, least = @least
      FROM (SELECT least(count(*), @free::int)::int AS n FROM picked) h
     WHERE w.worker_id = @worker AND w.state = 'live' AND ((w.hungry > 0) <> (@free > h.n) OR w.least IS DISTINCT FROM @least::int)
), passed AS MATERIALIZED ( -- what stands between a floor and the first run that was claimed, or now, is locked: the floor is not to pass it
    SELECT l.lane_id, head.run_at, head.run_id
      FROM lane l
      LEFT JOIN LATERAL (SELECT c.run_at, c.run_id FROM claimed c WHERE c.lane_id = l.lane_id ORDER BY c.run_at, c.run_id LIMIT 1) f ON true
     CROSS JOIN LATERAL (
           SELECT r.run_at, r.run_id FROM oarlock.runs r
            WHERE r.lane_id = l.lane_id AND r.state = 'queued' AND (r.run_at, r.run_id) >= (l.floor, l.first)
              AND (r.run_at, r.run_id) < (coalesce(f.run_at, statement_timestamp()), coalesce(f.run_id, 0))
              AND (r.dag_id <> ALL (@held::bigint[]) OR r.started_at IS NOT NULL)
            ORDER BY r.run_at, r.run_id LIMIT 1) head
     WHERE NOT @full AND NOT l.limited AND NOT l.halted AND @want > 0
), facts AS (
    SELECT 1 AS n, (SELECT t.terms FROM oarlock.claim_terms t) AS terms, statement_timestamp() AS now,
           pg_current_xact_id()::text AS xid, pg_current_snapshot()::text AS snapshot,
           EXISTS (SELECT FROM fence) -- asked first: who waited for it in vain has an old snapshot, in which it is still there
               OR EXISTS (SELECT FROM oarlock.fences f JOIN oarlock.workers w ON w.worker_id = f.worker_id AND w.state = 'draining'
                           WHERE f.worker_id = @worker AND f.channel = 'claim') AS fenced,
           ARRAY(SELECT l.lane_id FROM lane l
                  WHERE l.limited AND @want > 0
                    AND CASE WHEN @full
                        THEN (SELECT true FROM oarlock.runs r WHERE r.lane_id = l.lane_id AND r.state = 'queued' AND r.epoch > 0 AND NOT r.slot_wanted
                                 AND r.started_at IS NOT NULL ORDER BY r.run_at, r.run_id LIMIT 1)
                        WHEN l.halted
                        THEN (SELECT true FROM oarlock.runs r WHERE r.lane_id = l.lane_id AND r.state = 'queued' AND r.epoch > 0
                                 AND r.run_at <= statement_timestamp() AND r.started_at IS NOT NULL ORDER BY r.run_at, r.run_id LIMIT 1)
                        ELSE (SELECT true FROM oarlock.runs r WHERE r.lane_id = l.lane_id AND r.state = 'queued'
                                 AND (r.run_at, r.run_id) >= (l.floor, l.first) AND r.run_at <= statement_timestamp() ORDER BY r.run_at, r.run_id LIMIT 1) END) AS limited,
           (SELECT l.priority FROM lane l
             WHERE l.priority > @least AND NOT l.halted
               AND (SELECT true FROM oarlock.runs r WHERE r.lane_id = l.lane_id AND r.state = 'queued'
                       AND (r.run_at, r.run_id) >= (l.floor, l.first) AND r.run_at <= statement_timestamp()
                       AND (r.dag_id <> ALL (@held::bigint[]) OR r.started_at IS NOT NULL) ORDER BY r.run_at, r.run_id LIMIT 1)
             ORDER BY l.n LIMIT 1) AS top,
           ARRAY(SELECT l.lane_id FROM lane l -- what stands at a floor and may not begin: only this poll sees it, for the next one begins above
                  WHERE NOT l.halted AND l.shared AND @held::bigint[] <> '{}'
                    AND (SELECT r.dag_id = ANY (@held::bigint[]) AND r.started_at IS NULL FROM oarlock.runs r WHERE r.lane_id = l.lane_id AND r.state = 'queued'
                            AND (r.run_at, r.run_id) >= (l.floor, l.first) AND r.run_at <= statement_timestamp() ORDER BY r.run_at, r.run_id LIMIT 1)) AS blocked,
           ARRAY(SELECT b.lane_id FROM back b ORDER BY b.lane_id) AS back,
           ARRAY(SELECT b.at FROM back b ORDER BY b.lane_id) AS back_at,
           ARRAY(SELECT b.run FROM back b ORDER BY b.lane_id) AS back_runs,
           ARRAY(SELECT p.lane_id FROM passed p ORDER BY p.lane_id) AS passed,
           ARRAY(SELECT p.run_at FROM passed p ORDER BY p.lane_id) AS passed_at,
           ARRAY(SELECT p.run_id FROM passed p ORDER BY p.lane_id) AS passed_runs
)
SELECT f.terms, f.now, f.xid, f.snapshot, f.fenced, f.limited, f.top, f.blocked, f.back, f.back_at, f.back_runs, f.passed, f.passed_at, f.passed_runs, d.name, c.*
  FROM facts f
  FULL JOIN claimed c ON c.n = f.n
  LEFT JOIN oarlock.dags d ON d.dag_id = c.dag_id
