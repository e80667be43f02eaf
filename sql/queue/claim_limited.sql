-- Purpose: claims due runs of lanes that share a limit, as many as it has left; the second statement after queue/gates, so that it sees what others claimed before
-- Index: runs_worker and runs_set_aside, for the counts; runs_begun, for what started before; runs_queued, from each lane's floor on; runs_pkey
-- Locks: (held: the claim fence, the queue's and the DAG's row) each run it claims FOR NO KEY UPDATE, passing over those that are locked
WITH room AS MATERIALIZED ( -- no row under other terms: then nothing is claimed, and a LIMIT of null would be none
    SELECT least(@want::int, CASE WHEN q.max_running > 0 THEN q.max_running - (
               SELECT count(*) FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE r.worker_id IS NOT NULL AND l.queue = q.name) END) AS any,
           CASE WHEN d.max_active_runs > 0 THEN d.max_active_runs
               - (SELECT count(*) FROM oarlock.runs r WHERE r.worker_id IS NOT NULL AND r.dag_id = d.dag_id)
               - (SELECT count(*) FROM oarlock.runs r WHERE r.dag_id = d.dag_id AND r.epoch > 0 AND r.worker_id IS NULL
                     AND r.state IN ('queued', 'waiting', 'paused') AND r.started_at IS NOT NULL) END AS fresh
      FROM oarlock.queues q LEFT JOIN oarlock.dags d ON d.dag_id = @dag
     WHERE q.name = @queue AND (SELECT t.terms FROM oarlock.claim_terms t) = @terms
), lane AS MATERIALIZED (
    SELECT a.lane_id, a.floor, a.first, a.halted
      FROM unnest(@lanes::int[], @floors::timestamptz[], @froms::bigint[], @halted::bool[]) WITH ORDINALITY a (lane_id, floor, first, halted, n)
     ORDER BY a.n
), begun AS MATERIALIZED ( -- a limit of the DAG counts them already, and a pause holds up none of them. Where no slot is free or about to be, only what needs no slot
    SELECT head.run_id
      FROM lane CROSS JOIN LATERAL (
           SELECT r.run_id FROM oarlock.runs r
            WHERE r.lane_id = lane.lane_id AND r.state = 'queued' AND r.epoch > 0 AND r.run_at <= statement_timestamp()
              AND r.started_at IS NOT NULL AND (@slots::int > 0 OR NOT r.slot_wanted)
            ORDER BY r.run_at, r.run_id LIMIT @want FOR NO KEY UPDATE SKIP LOCKED) head
     WHERE @dag <> 0 OR lane.halted OR @slots = 0
     LIMIT coalesce((SELECT greatest(m.any, 0) FROM room m), 0)
), fresh AS MATERIALIZED (
    SELECT head.run_id
      FROM lane CROSS JOIN LATERAL (
           SELECT r.run_id FROM oarlock.runs r
            WHERE r.lane_id = lane.lane_id AND r.state = 'queued' AND (r.run_at, r.run_id) >= (lane.floor, lane.first) AND r.run_at <= statement_timestamp()
              AND (r.started_at IS NOT NULL AND @dag = 0 OR r.started_at IS NULL AND (@dag <> 0 OR r.dag_id <> ALL (@held::bigint[]))) -- what has begun goes on
            ORDER BY r.run_at, r.run_id LIMIT @want FOR NO KEY UPDATE SKIP LOCKED) head
     WHERE NOT lane.halted
     LIMIT coalesce((SELECT greatest(least(m.any - (SELECT count(*) FROM begun), m.fresh, @slots), 0) FROM room m), 0)
), claimed AS (
    UPDATE oarlock.claims c
       SET state = 'running', claim_id = p.claim_id, worker_id = @worker, epoch = c.epoch + 1, wake_at = NULL,
           started_at = coalesce(c.started_at, date_trunc('milliseconds', statement_timestamp())) -- so that its driver need not write the row when it begins
      FROM unnest(ARRAY(SELECT b.run_id FROM begun b UNION ALL SELECT f.run_id FROM fresh f), @claims::uuid[]) p (run_id, claim_id)
     WHERE c.run_id = p.run_id -- by key alone: planned on an empty table, a plan by state would go through all that is queued for each run
    RETURNING (c.started_at <> date_trunc('milliseconds', statement_timestamp()))::int AS begun, c.*
)
SELECT d.name, c.*
  FROM claimed c JOIN oarlock.dags d ON d.dag_id = c.dag_id
