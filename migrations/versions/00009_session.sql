-- +goose Up

-- Runs that were driven before and have no driver now. max_active_runs counts the ones that started, and lets them go on without
-- another check. Only runs that park or were lost have an entry, so the usual run never has one.
CREATE INDEX runs_set_aside ON oarlock.runs (dag_id) WHERE epoch > 0 AND worker_id IS NULL AND state IN ('queued', 'waiting', 'paused');

-- Returns the lanes that a worker serves. It is plain SQL, so that the planner inlines it. A login may make more than a
-- thousand lanes, so pauses and limits of queues are read once, and DAGs only for lanes of their own. OFFSET keeps the
-- condition on the lane before the lookup.
-- +goose StatementBegin
CREATE FUNCTION oarlock.lanes_of(worker uuid) RETURNS TABLE (lane_id int, queue text, priority int, dag_id bigint, paused bool, limited bool, keyed bool)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT l.lane_id, l.queue, l.priority, l.dag_id,
           coalesce((SELECT jsonb_object_agg(q.name, 0) FROM oarlock.queues q WHERE q.paused_by IS NOT NULL) ? l.queue, false) OR coalesce(d.paused, false),
           coalesce((SELECT jsonb_object_agg(q.name, 0) FROM oarlock.queues q WHERE q.max_running > 0) ? l.queue, false) OR coalesce(d.limited OR d.keyed, false), coalesce(d.keyed, false)
      FROM oarlock.workers w
      JOIN oarlock.lanes l ON oarlock.may_serve(w, (SELECT o.offers FROM oarlock.worker_offers o WHERE o.worker_id = lanes_of.worker), l) -- read once, not for each lane
      LEFT JOIN LATERAL (SELECT d.paused_by IS NOT NULL AS paused, d.max_active_runs > 0 AS limited, l.keyed AND d.current_limits IS NOT NULL AS keyed FROM oarlock.dags d
                          WHERE l.dag_id <> 0 AND d.dag_id = l.dag_id OFFSET 0) d ON true
     WHERE w.worker_id = lanes_of.worker AND l.closed IS NULL;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.lanes_of(uuid) IS 'Internal: the open lanes that a worker serves. Of a paused one only what has begun goes on.';

-- The columns of a run that a claim writes and returns. They are listed only here: statements that claim update this view, and
-- return all of it.
CREATE VIEW oarlock.claims AS
SELECT run_id, uid, claim_id, epoch, inbox, dag_id, version, lane_id, losses, params, labels, precomputed,
       run_at, logical_at, created_at, trigger, submitted_by, run_key, traceparent, parent_run, root_id, depth, reason,
       generation, ending, ending_by, ending_text, paused_by, started_at, deadline, left_ms, tolerated, counts, schedule, previous_at,
       stage, ready_at, (limit_keys IS NOT NULL)::int AS keyed, state, worker_id, wake_at
  FROM oarlock.runs;
COMMENT ON VIEW oarlock.claims IS 'Internal: the columns of runs that a claim writes and returns.';

-- Returns how many more runs of a queue and a DAG may begin or go on by their limits; null: there is no limit. The limit of the
-- DAG and pauses do not apply to runs that have begun.
-- +goose StatementBegin
CREATE FUNCTION oarlock.room_of(queue text, dag bigint, stage int) RETURNS int
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT least(CASE WHEN q.max_running > 0 THEN q.max_running - (
                      SELECT count(*) FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE r.worker_id IS NOT NULL AND l.queue = q.name) END,
                 CASE WHEN d.max_active_runs > 0 AND room_of.stage = 2 THEN d.max_active_runs
                    - (SELECT count(*) FROM oarlock.runs r WHERE r.worker_id IS NOT NULL AND r.dag_id = d.dag_id)
                    - (SELECT count(*) FROM oarlock.runs r WHERE r.dag_id = d.dag_id AND r.epoch > 0 AND r.worker_id IS NULL
                          AND r.state IN ('queued', 'waiting', 'paused') AND r.stage < 2) END,
                 CASE WHEN room_of.stage = 2 AND (q.paused_by IS NOT NULL OR d.paused_by IS NOT NULL) THEN 0 END)::int
      FROM oarlock.queues q LEFT JOIN oarlock.dags d ON d.dag_id = room_of.dag WHERE q.name = room_of.queue;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.room_of(text, bigint, int) IS 'Internal: how many more runs limits let begin or go on.';

-- Locks and returns due runs of a keyed lane that the limit lets begin, at most `want`: of each key the oldest, one of each key before a
-- second of any. It passes over runs that another session holds. The caller holds the row of the DAG, so that counts do not change
-- meanwhile. The function visits at most 200 keys by jumps through the index, and begins behind the key at which the last call of this
-- session ended: a key with many runs, and 200 keys without room, hold up no other key for longer than one turn. The session keeps that
-- place in a setting of its own.
-- +goose StatementBegin
CREATE FUNCTION oarlock.pick_keyed(lane int, dag bigint, due timestamptz, want int) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    most    int := (SELECT (d.current_limits #>> '{0,limit}')::int FROM oarlock.dags d WHERE d.dag_id = dag);
    turn    text COLLATE "C" := coalesce(current_setting('oarlock.turn_' || lane, true), '');
    bound   text COLLATE "C" := turn; -- the least key to visit next
    wrapped bool := turn = '';
    head    record;
    keys    text[] := '{}';
    rooms   int[] := '{}';
    ats     timestamptz[] := '{}'; -- by key: the place of the run that was picked last
    ids     bigint[] := '{}';
    -- Runs without a key pass the limit. They are read by the null key: else the plan would go through the whole lane.
    picked  bigint[] := ARRAY(SELECT r.run_id FROM oarlock.runs r
                               WHERE r.lane_id = lane AND r.limit_keys[1] IS NULL AND r.limit_keys IS NOT NULL AND r.state = 'queued' AND r.stage = 2
                                 AND r.ready_at <= due ORDER BY r.limit_keys[1], r.ready_at, r.run_id LIMIT want FOR NO KEY UPDATE SKIP LOCKED);
    room    int;
    next    record;
    more    bool := true;
BEGIN
    IF num_nulls(lane, dag, due, want) > 0 THEN
        RAISE EXCEPTION 'pick_keyed: no argument may be null' USING ERRCODE = '22004';
    END IF;
    FOR i IN 1 .. 200 LOOP
        EXIT WHEN cardinality(picked) + cardinality(keys) >= want;
        SELECT r.limit_keys[1] AS key, r.ready_at INTO head FROM oarlock.runs r
         WHERE r.lane_id = lane AND r.limit_keys[1] >= bound AND r.limit_keys IS NOT NULL AND r.state = 'queued' AND r.stage = 2
         ORDER BY r.limit_keys[1], r.ready_at LIMIT 1;
        IF NOT FOUND AND NOT wrapped THEN
            wrapped := true;
            bound := '';
            CONTINUE;
        END IF;
        EXIT WHEN head.key IS NULL OR wrapped AND turn <> '' AND head.key COLLATE "C" >= turn;
        bound := head.key || E'\x01'; -- no text lies between
        room := CASE WHEN head.ready_at <= due THEN most - oarlock.counted_runs(dag, head.key, most) ELSE 0 END;
        IF room > 0 THEN
            keys := keys || head.key;
            rooms := rooms || room;
            ats := ats || '-infinity'::timestamptz;
            ids := ids || 0::bigint;
        END IF;
    END LOOP;
    PERFORM set_config('oarlock.turn_' || lane, bound, false);
    WHILE more LOOP
        more := false;
        FOR i IN 1 .. cardinality(keys) LOOP
            CONTINUE WHEN rooms[i] = 0 OR cardinality(picked) >= want;
            SELECT r.run_id, r.ready_at INTO next FROM oarlock.runs r
             WHERE r.lane_id = lane AND r.limit_keys[1] = keys[i] AND r.limit_keys IS NOT NULL AND r.state = 'queued' AND r.stage = 2
               AND (r.ready_at, r.run_id) > (ats[i], ids[i]) AND r.ready_at <= due
             ORDER BY r.ready_at, r.run_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
            IF FOUND THEN
                picked := picked || next.run_id;
                ats[i] := next.ready_at;
                ids[i] := next.run_id;
                rooms[i] := rooms[i] - 1;
                more := true;
            ELSE
                rooms[i] := 0;
            END IF;
        END LOOP;
    END LOOP;
    RETURN picked;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.pick_keyed(int, bigint, timestamptz, int) IS 'Internal: the runs of a keyed lane that may begin.';

-- Claims due runs behind limits, shelf by shelf. One session at a time counts how much a limit has left, and other sessions
-- skip that shelf meanwhile. The function is plpgsql, because each of its statements must see the claims that other sessions
-- committed before it got its locks. For the arguments see queue/claim.
-- +goose StatementBegin
CREATE FUNCTION oarlock.claim_limited(worker uuid, claims uuid[], shelves bigint[], cursors timestamptz[], rest timestamptz, last_stage int, lowest int,
    fair bool, new_first bool, queues text[], skip int[]) RETURNS SETOF oarlock.claims
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    due   timestamptz := clock_timestamp(); -- read once: a volatile value cannot be looked up in an index
    taken jsonb; -- how many runs of each DAG and of each queue are claimed, counted before any lock
    shelf record;
    due_ids bigint[];
    room  int;
    more  int;
    n     int := 0;
BEGIN
    IF num_nulls(worker, claims, shelves, cursors, rest, last_stage, lowest, fair, new_first, queues, skip) > 0 THEN
        RAISE EXCEPTION 'claim_limited: no argument may be null' USING ERRCODE = '22004';
    END IF;
    PERFORM FROM oarlock.fences f JOIN oarlock.workers w USING (worker_id)
      WHERE f.worker_id = claim_limited.worker AND f.channel = 'claim' AND w.state = 'live' FOR NO KEY UPDATE OF f;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT coalesce(jsonb_object_agg(x.key, x.n), '{}') INTO taken
      FROM (SELECT coalesce('dag ' || h.dag_id, 'queue ' || l.queue) AS key, count(*) AS n
              FROM (SELECT r.dag_id, r.lane_id FROM oarlock.runs r WHERE r.worker_id > '00000000-0000-0000-0000-000000000000' OFFSET 0) h -- the bound keeps the plan on runs_worker
              JOIN oarlock.lanes l USING (lane_id) GROUP BY GROUPING SETS ((h.dag_id), (l.queue))) x;
    FOR shelf IN SELECT l.lane_id, l.queue, l.dag_id, s.stage, s.since, q.max_running, coalesce(d.max_active_runs, 0) AS max_active_runs, q.max_running > 0 AS by_queue,
                        s.stage = 2 AND l.keyed AS by_key, s.stage = 2 AND (coalesce(d.max_active_runs, 0) > 0 OR l.keyed) AS by_dag
                   FROM oarlock.lanes_of(claim_limited.worker) l
                   JOIN oarlock.queues q ON q.name = l.queue
                   LEFT JOIN oarlock.dags d ON d.dag_id = l.dag_id
                  CROSS JOIN LATERAL (SELECT s.stage, CASE WHEN shelves[p.i] = 3 * l.lane_id::bigint + s.stage THEN cursors[p.i] ELSE rest END AS since
                                        FROM generate_series(0, least(last_stage, CASE WHEN l.paused OR l.lane_id = ANY (skip) THEN 1 ELSE 2 END)) s (stage)
                                       CROSS JOIN LATERAL (SELECT width_bucket(3 * l.lane_id::bigint + s.stage, shelves)) p (i)) s
                  CROSS JOIN LATERAL (SELECT r.ready_at FROM oarlock.runs r
                                       WHERE r.lane_id = l.lane_id AND r.stage = s.stage AND r.state = 'queued'
                                         AND r.ready_at >= s.since AND r.ready_at <= CASE s.stage WHEN 2 THEN due ELSE 'infinity' END
                                       ORDER BY r.ready_at LIMIT 1) head
                  WHERE l.limited AND l.priority >= lowest
                  ORDER BY CASE WHEN fair THEN 0 ELSE l.priority END DESC, CASE WHEN NOT fair THEN array_position(queues, l.queue) END NULLS FIRST,
                           CASE WHEN fair OR s.stage = 0 THEN 0 WHEN new_first THEN 3 - s.stage ELSE s.stage END, head.ready_at LOOP
        -- a shelf behind a full limit needs no lock, and all claimed runs are counted once
        CONTINUE WHEN shelf.by_queue AND (taken ->> ('queue ' || shelf.queue))::int >= shelf.max_running;
        CONTINUE WHEN shelf.by_dag AND shelf.max_active_runs > 0 AND coalesce((taken ->> ('dag ' || shelf.dag_id))::int, 0) + (
            SELECT count(*) FROM oarlock.runs r WHERE r.dag_id = shelf.dag_id AND r.epoch > 0 AND r.worker_id IS NULL
               AND r.state IN ('queued', 'waiting', 'paused') AND r.stage < 2) >= shelf.max_active_runs;
        PERFORM FROM oarlock.queues q WHERE q.name = shelf.queue AND shelf.by_queue FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN shelf.by_queue AND NOT FOUND;
        PERFORM FROM oarlock.dags d WHERE d.dag_id = shelf.dag_id AND shelf.by_dag FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN shelf.by_dag AND NOT FOUND;
        room := least(cardinality(claims) - n, oarlock.room_of(shelf.queue, shelf.dag_id, shelf.stage));
        CONTINUE WHEN room <= 0;
        IF shelf.by_key THEN
            due_ids := oarlock.pick_keyed(shelf.lane_id, shelf.dag_id, due, room);
        ELSE
            due_ids := ARRAY(
            SELECT r.run_id FROM oarlock.runs r
             WHERE r.lane_id = shelf.lane_id AND r.stage = shelf.stage AND r.state = 'queued'
               AND r.ready_at >= shelf.since AND r.ready_at <= CASE shelf.stage WHEN 2 THEN due ELSE 'infinity' END
               AND (shelf.stage < 2 OR shelf.dag_id <> 0
                    OR r.dag_id <> ALL (ARRAY(SELECT d.dag_id FROM oarlock.dags d WHERE d.paused_by IS NOT NULL OR d.max_active_runs > 0)))
             ORDER BY r.ready_at, r.run_id LIMIT room FOR NO KEY UPDATE SKIP LOCKED);
        END IF;
        RETURN QUERY
        UPDATE oarlock.claims c
           SET state = 'running', claim_id = p.claim_id, worker_id = claim_limited.worker, epoch = c.epoch + 1, wake_at = NULL,
               started_at = coalesce(c.started_at, date_trunc('milliseconds', clock_timestamp()))
          FROM unnest(due_ids, claims[n + 1 : n + cardinality(due_ids)]) p (run_id, claim_id)
         WHERE c.run_id = p.run_id
        RETURNING c.*;
        GET DIAGNOSTICS more = ROW_COUNT;
        n := n + more;
        EXIT WHEN n = cardinality(claims);
    END LOOP;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.claim_limited(uuid, uuid[], bigint[], timestamptz[], timestamptz, int, int, bool, bool, text[], int[]) IS 'Internal: claims due runs behind limits.';

-- Claims due runs of one family, whatever lane they are in, for a worker that serves nothing else. It claims the oldest first,
-- and runs behind limits as far as the limits have room.
-- +goose StatementBegin
CREATE FUNCTION oarlock.claim_family(worker uuid, root bigint, claims uuid[]) RETURNS SETOF oarlock.claims
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    due record;
    n   int := 0;
BEGIN
    IF num_nulls(worker, root, claims) > 0 THEN
        RAISE EXCEPTION 'claim_family: no argument may be null' USING ERRCODE = '22004';
    END IF;
    PERFORM FROM oarlock.fences f JOIN oarlock.workers w USING (worker_id)
      WHERE f.worker_id = claim_family.worker AND f.channel = 'claim' AND w.state = 'live' FOR NO KEY UPDATE OF f;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOR due IN WITH RECURSIVE family (run_id) AS (
                   SELECT r.run_id FROM oarlock.runs r WHERE r.run_id = claim_family.root
                   UNION ALL
                   SELECT c.run_id FROM family f JOIN oarlock.runs c ON c.parent_run = f.run_id)
               SELECT r.run_id, r.dag_id, l.queue, r.stage, q.max_running > 0 AS by_queue, r.stage = 2 AND (d.max_active_runs > 0 OR r.limit_keys IS NOT NULL AND d.current_limits IS NOT NULL) AS by_dag,
                      r.limit_keys, d.current_limits
                 FROM family f JOIN oarlock.runs r USING (run_id)
                 JOIN oarlock.lanes l USING (lane_id) JOIN oarlock.queues q ON q.name = l.queue JOIN oarlock.dags d ON d.dag_id = r.dag_id
                WHERE r.state = 'queued' AND (r.stage < 2 OR r.ready_at <= clock_timestamp() AND q.paused_by IS NULL AND d.paused_by IS NULL)
                ORDER BY r.stage = 2, r.ready_at, r.run_id LOOP
        EXIT WHEN n = cardinality(claims);
        IF due.by_queue OR due.by_dag THEN
            PERFORM FROM oarlock.queues q WHERE q.name = due.queue AND due.by_queue FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN due.by_queue AND NOT FOUND;
            PERFORM FROM oarlock.dags d WHERE d.dag_id = due.dag_id AND due.by_dag FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN due.by_dag AND NOT FOUND;
            CONTINUE WHEN oarlock.room_of(due.queue, due.dag_id, due.stage) <= 0
                       OR due.by_dag AND oarlock.is_full(due.dag_id, due.current_limits, due.limit_keys);
        END IF;
        PERFORM FROM oarlock.runs r WHERE r.run_id = due.run_id AND r.state = 'queued' FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        n := n + 1;
        RETURN QUERY
        UPDATE oarlock.claims c
           SET state = 'running', claim_id = claims[n], worker_id = claim_family.worker, epoch = c.epoch + 1, wake_at = NULL,
               started_at = coalesce(c.started_at, date_trunc('milliseconds', clock_timestamp()))
         WHERE c.run_id = due.run_id
        RETURNING c.*;
    END LOOP;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.claim_family(uuid, bigint, uuid[]) IS 'Internal: claims due runs of one family.';

-- Queues parked runs, and runs that wait for a slot, once their wake_at has passed. Rows that another session holds are left to
-- the next call: waiting for an application in the middle of its transaction would hold up all other runs.
-- +goose StatementBegin
CREATE FUNCTION oarlock.wake_due(batch int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    woken int;
BEGIN
    IF batch IS NULL THEN
        RAISE EXCEPTION 'wake_due: how many at most?' USING ERRCODE = '22004';
    END IF;
    WITH due AS MATERIALIZED (
        SELECT r.run_id FROM oarlock.runs r
         WHERE r.wake_at <= statement_timestamp() AND r.claim_id IS NULL
         ORDER BY r.wake_at LIMIT wake_due.batch FOR NO KEY UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE oarlock.runs r SET state = 'queued', wake_at = NULL, stage = 0, ready_at = clock_timestamp()
         WHERE r.run_id = ANY (ARRAY(SELECT d.run_id FROM due d)) -- keeps the plan on the key
        RETURNING r.run_id, r.lane_id
    ), woken AS (
        SELECT oarlock.wake(m.lane_id, count(*), 2) FROM moved m GROUP BY m.lane_id
    ), told AS (
        SELECT pg_notify(f.channel, 'run:' || m.run_id) FROM moved m JOIN oarlock.followers f USING (run_id)
    )
    SELECT (SELECT count(*) FROM moved) + 0 * ((SELECT count(*) FROM woken) + (SELECT count(*) FROM told)) INTO woken;
    RETURN woken;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.wake_due(int) IS 'Internal: queues runs after their wake_at.';

-- Moves runs of paused or limited DAGs from the heads of lanes into lanes of these DAGs, and returns how many. Runs of a paused
-- DAG at the head of a lane are in the way of other runs: each claim would read through them again. Runs of a DAG that got a
-- limit must be claimed behind the limit, however they came into the lane: queued before the limit, committed later, or
-- retried. New runs of the DAG go into its own lane too, and all stay there when the DAG is resumed. Workers move the runs,
-- some at a time, so that the user that pauses or limits a DAG does not have to wait. Runs that another session holds stay, and
-- every claim leaves them out all the same.
-- +goose StatementBegin
CREATE FUNCTION oarlock.set_aside(lanes int[], batch int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held  record;
    own   int;
    n     int;
    moved int := 0;
BEGIN
    IF num_nulls(lanes, batch) > 0 THEN
        RAISE EXCEPTION 'set_aside: of which lanes, how many at most?' USING ERRCODE = '22004';
    END IF;
    FOR held IN SELECT l.*, d.dag_id AS dag, array_agg(h.run_id) AS runs
                  FROM oarlock.lanes l
                 CROSS JOIN LATERAL (
                       SELECT r.run_id, r.dag_id FROM oarlock.runs r
                        WHERE r.lane_id = l.lane_id AND r.stage = 2 AND r.state = 'queued'
                        ORDER BY r.ready_at, r.run_id LIMIT set_aside.batch) h
                  JOIN oarlock.dags d ON d.dag_id = h.dag_id AND (d.paused_by IS NOT NULL OR d.max_active_runs > 0)
                 WHERE l.lane_id = ANY (set_aside.lanes) AND l.dag_id = 0
                 GROUP BY l.lane_id, d.dag_id ORDER BY l.lane_id, d.dag_id LOOP
        own := oarlock.find_lane(held.queue, held.priority, held.selector, held.needs, held.slots, held.dag, false, NULL);
        UPDATE oarlock.runs r SET lane_id = own
         WHERE r.run_id = ANY (ARRAY(SELECT x.run_id FROM oarlock.runs x
                                      WHERE x.run_id = ANY (held.runs) AND x.state = 'queued' AND x.lane_id = held.lane_id AND x.stage = 2
                                        FOR NO KEY UPDATE SKIP LOCKED));
        GET DIAGNOSTICS n = ROW_COUNT;
        moved := moved + n;
    END LOOP;
    RETURN moved;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.set_aside(int[], int) IS 'Internal: moves runs of DAGs that are paused or limited from the heads of lanes into lanes of their own.';

-- Puts away for a while a run that the worker that claimed it cannot read. A newer version of Oarlock may have written the run,
-- and other workers may be of that version. Such a drive counts as lost, and the last of `tries` ends the run. It waits 250 ms
-- at most for another session that holds the row of the run; the worker then tries again. Returns false if the claim is gone.
-- +goose StatementBegin
CREATE FUNCTION oarlock.release_unreadable(run bigint, claim uuid, epoch int, reason text, pause interval, tries int) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms' AS $$
#variable_conflict use_variable
DECLARE
    r oarlock.runs;
BEGIN
    PERFORM FROM oarlock.runs o JOIN oarlock.fences f ON f.worker_id = o.worker_id AND f.channel = 'commit'
      WHERE o.run_id = run AND o.claim_id = claim FOR NO KEY UPDATE OF f;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT * INTO r FROM oarlock.runs o WHERE o.run_id = run AND o.claim_id = claim;
    IF NOT FOUND THEN
        RETURN false;
    ELSIF r.losses + 1 >= tries THEN
        RETURN oarlock.fail_run(run, claim, epoch, 'internal: ' || reason);
    END IF;
    UPDATE oarlock.runs o
       SET state = 'waiting', reason = release_unreadable.reason, claim_id = NULL, worker_id = NULL, losses = o.losses + 1, stage = 1,
           wake_at = clock_timestamp() + pause
     WHERE o.run_id = run AND o.claim_id = claim;
    INSERT INTO oarlock.events (run_id, kind, worker, epoch, message)
    VALUES (run, 'put_away', (SELECT w.name FROM oarlock.workers w WHERE w.worker_id = r.worker_id), epoch, reason);
    PERFORM pg_notify(f.channel, 'run:' || run) FROM oarlock.followers f WHERE f.run_id = run;
    RETURN true;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.release_unreadable(bigint, uuid, int, text, interval, int) IS 'Internal: gives back a run that a worker cannot read.';

-- Ends runs that waited too long to start. It locks parents before their children, like every statement. If another session holds
-- a run, its parent or one of its open controls, the run is left to the next call, because waiting would hold up timers.
-- +goose StatementBegin
CREATE FUNCTION oarlock.expire_queued(batch int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    due   record;
    r     oarlock.runs;
    ended int := 0;
BEGIN
    IF batch IS NULL THEN
        RAISE EXCEPTION 'expire_queued: how many at most?' USING ERRCODE = '22004';
    END IF;
    FOR due IN SELECT q.run_id, q.parent_run FROM oarlock.runs q
                WHERE q.state = 'queued' AND q.queue_deadline <= statement_timestamp() AND q.started_at IS NULL
                ORDER BY coalesce(q.parent_run, q.run_id), q.run_id LIMIT expire_queued.batch LOOP
        IF due.parent_run IS NOT NULL THEN
            PERFORM FROM oarlock.runs p WHERE p.run_id = due.parent_run FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND;
        END IF;
        SELECT * INTO r FROM oarlock.runs q WHERE q.run_id = due.run_id FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR r.state <> 'queued' OR r.started_at IS NOT NULL OR r.queue_deadline IS NULL OR r.queue_deadline > statement_timestamp();
        CONTINUE WHEN (SELECT count(*) FROM oarlock.controls c WHERE c.run_id = r.run_id AND c.decided_at IS NULL)
                    > (SELECT count(*) FROM (SELECT FROM oarlock.controls c WHERE c.run_id = r.run_id AND c.decided_at IS NULL FOR NO KEY UPDATE SKIP LOCKED) free);
        UPDATE oarlock.runs q SET state = 'failed', reason = 'queue_timeout', queue_deadline = NULL, finished_at = clock_timestamp()
         WHERE q.run_id = r.run_id;
        PERFORM oarlock.refuse_open(r.run_id, 'failed', 'queue_timeout');
        INSERT INTO oarlock.events (run_id, kind, message) VALUES (r.run_id, 'queue_timeout', 'not started in time: no worker took it');
        PERFORM pg_notify(f.channel, 'run:' || r.run_id) FROM oarlock.followers f WHERE f.run_id = r.run_id;
        IF r.parent_run IS NOT NULL THEN
            PERFORM oarlock.tell_parent(r, 'failed', 'queue_timeout');
        END IF;
        ended := ended + 1;
    END LOOP;
    RETURN ended;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.expire_queued(int) IS 'Internal: ends runs that did not start within their queue_timeout.';

-- +goose Down
DROP FUNCTION oarlock.expire_queued(int);
DROP FUNCTION oarlock.set_aside(int[], int);
DROP FUNCTION oarlock.release_unreadable(bigint, uuid, int, text, interval, int);
DROP FUNCTION oarlock.wake_due(int);
DROP FUNCTION oarlock.claim_family(uuid, bigint, uuid[]);
DROP FUNCTION oarlock.claim_limited(uuid, uuid[], bigint[], timestamptz[], timestamptz, int, int, bool, bool, text[], int[]);
DROP FUNCTION oarlock.room_of(text, bigint, int);
DROP VIEW oarlock.claims;
DROP FUNCTION oarlock.pick_keyed(int, bigint, timestamptz, int);
DROP FUNCTION oarlock.lanes_of(uuid);
DROP INDEX oarlock.runs_set_aside;
