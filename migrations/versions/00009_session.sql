-- +goose Up

-- Runs that were driven before and have no driver now. max_active_runs counts those that started, and lets them go on
-- without asking again. It holds what parks or was lost, so the usual run never enters it.
CREATE INDEX runs_set_aside ON oarlock.runs (dag_id) WHERE epoch > 0 AND worker_id IS NULL AND state IN ('queued', 'waiting', 'paused');

-- What decides which lanes may be claimed from, as one text: workers that know another one read their lanes again before
-- they claim. A view, because a poll asks every time and a function would not be planned into it.
CREATE VIEW oarlock.claim_terms (terms) AS
SELECT concat_ws(':',
    (SELECT count(*) FROM oarlock.lanes), -- none ever goes
    (SELECT bit_xor(hashtextextended(concat_ws(' ', q.name, q.paused_by IS NULL, q.max_running), 0)) FROM oarlock.queues q
      WHERE q.paused_by IS NOT NULL OR q.max_running > 0),
    'd', (SELECT bit_xor(hashtextextended(concat_ws(' ', d.dag_id, d.paused_by IS NULL, d.max_active_runs), 0)) FROM oarlock.dags d
      WHERE d.paused_by IS NOT NULL OR d.max_active_runs > 0));
COMMENT ON VIEW oarlock.claim_terms IS 'Internal: a digest of lanes, pauses and limits.';

-- What a claim stores, and what it brings of a run: the one list of these columns. Statements that claim update the view, and
-- return all of it.
CREATE VIEW oarlock.claims AS
SELECT run_id, uid, claim_id, epoch, inbox, dag_id, version, lane_id, losses, params, labels, precomputed,
       run_at, logical_at, created_at, trigger, submitted_by, run_key, traceparent, parent_run, root_id, depth, reason,
       generation, ending, ending_by, ending_text, paused_by, started_at, deadline, left_ms, tolerated, counts, schedule, previous_at,
       state, worker_id, wake_at
  FROM oarlock.runs;
COMMENT ON VIEW oarlock.claims IS 'Internal: runs as those who claim them see them.';

-- Queues parked runs whose time has come. Rows that somebody holds are left to the next call: waiting for a host
-- application in the middle of its transaction would hold up all others.
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
         WHERE r.state = 'waiting' AND r.wake_at <= statement_timestamp() AND r.claim_id IS NULL
         ORDER BY r.wake_at LIMIT wake_due.batch FOR NO KEY UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE oarlock.runs r SET state = 'queued', wake_at = NULL, slot_wanted = false
         WHERE r.run_id = ANY (ARRAY(SELECT d.run_id FROM due d)) AND r.state || '' = 'waiting' -- by key: planned on an empty table, the plan would go through all that waits
        RETURNING r.run_id, r.lane_id, r.run_at
    ), lane AS (
        SELECT m.lane_id, count(*)::int AS n, min(m.run_at) AS at, min(m.run_id) AS run FROM moved m GROUP BY m.lane_id ORDER BY m.lane_id
    ), reset AS (
        SELECT oarlock.come_back(n.lane_id, n.at, n.run), oarlock.wake(n.lane_id, n.n, 2) FROM lane n
    ), told AS (
        SELECT pg_notify(f.channel, 'run:' || m.run_id) FROM moved m JOIN oarlock.followers f USING (run_id)
    )
    SELECT (SELECT count(*) FROM moved) + 0 * ((SELECT count(*) FROM reset) + (SELECT count(*) FROM told)) INTO woken;
    RETURN woken;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.wake_due(int) IS 'Internal: queues parked runs whose wake_at has passed.';

-- Runs of a paused DAG that stand at the head of a lane stand in the way of others: each claimer would read through them
-- again and again. Those of a DAG that got a limit are to be claimed behind it, however they came into the lane: waiting
-- when it came, committed later, or retried. They go into a lane of the DAG's own, where its new ones go, and stay there when
-- it goes on. Whoever pauses or limits does not wait for that: workers do it, some at a time. What somebody holds stays, and
-- is left out by every claim all the same.
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
                        WHERE r.lane_id = l.lane_id AND r.state = 'queued' AND r.started_at IS NULL
                        ORDER BY r.run_at, r.run_id LIMIT set_aside.batch) h
                  JOIN oarlock.dags d ON d.dag_id = h.dag_id AND (d.paused_by IS NOT NULL OR d.max_active_runs > 0)
                 WHERE l.lane_id = ANY (set_aside.lanes) AND l.dag_id = 0
                 GROUP BY l.lane_id, d.dag_id ORDER BY l.lane_id, d.dag_id LOOP
        own := oarlock.find_lane(held.queue, held.priority, held.selector, held.needs, held.slots, held.dag, NULL);
        UPDATE oarlock.runs r SET lane_id = own
         WHERE r.run_id = ANY (ARRAY(SELECT x.run_id FROM oarlock.runs x
                                      WHERE x.run_id = ANY (held.runs) AND x.state = 'queued' AND x.lane_id = held.lane_id AND x.started_at IS NULL
                                        FOR NO KEY UPDATE SKIP LOCKED));
        GET DIAGNOSTICS n = ROW_COUNT;
        moved := moved + n;
        PERFORM oarlock.come_back(own, 'epoch', 0); -- the DAG may just have been resumed
    END LOOP;
    RETURN moved;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.set_aside(int[], int) IS 'Internal: moves runs of DAGs that are paused or limited from the heads of lanes into lanes of their own.';

-- Puts away, for a while, a run that whoever claimed it cannot read: a newer version may have written it, and others may be
-- newer too. Such a drive counts as lost; the last of so many tries ends the run. It waits for nobody: who holds the run's
-- row has it tried again. False: the claim is gone.
-- +goose StatementBegin
CREATE FUNCTION oarlock.put_away(run bigint, claim uuid, epoch int, reason text, pause interval, tries int) RETURNS bool
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
        RETURN oarlock.condemn(run, claim, epoch, 'internal: ' || reason);
    END IF;
    UPDATE oarlock.runs o
       SET state = 'waiting', reason = put_away.reason, claim_id = NULL, worker_id = NULL, losses = o.losses + 1,
           wake_at = clock_timestamp() + pause
     WHERE o.run_id = run AND o.claim_id = claim;
    INSERT INTO oarlock.events (run_id, kind, worker, epoch, message)
    VALUES (run, 'put_away', (SELECT w.name FROM oarlock.workers w WHERE w.worker_id = r.worker_id), epoch, reason);
    PERFORM pg_notify(f.channel, 'run:' || run) FROM oarlock.followers f WHERE f.run_id = run;
    RETURN true;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.put_away(bigint, uuid, int, text, interval, int) IS 'Internal: puts away a run that a worker cannot read.';

-- Ends runs that waited too long to start. Parents are locked before their children, as everybody does; what somebody
-- holds is left to the next call.
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
        UPDATE oarlock.runs q SET state = 'failed', reason = 'queue_timeout', queue_deadline = NULL, finished_at = clock_timestamp()
         WHERE q.run_id = r.run_id;
        PERFORM oarlock.refuse_open(r.run_id, 'failed', 'queue_timeout');
        INSERT INTO oarlock.events (run_id, kind, message) VALUES (r.run_id, 'queue_timeout', 'not started in time: nobody had room for it');
        PERFORM pg_notify(f.channel, 'run:' || r.run_id) FROM oarlock.followers f WHERE f.run_id = r.run_id;
        IF r.parent_run IS NOT NULL THEN
            PERFORM oarlock.tell_parent(r, 'failed', 'queue_timeout');
        END IF;
        ended := ended + 1;
    END LOOP;
    RETURN ended;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.expire_queued(int) IS 'Internal: ends runs whose queue_timeout has passed.';

-- +goose Down
DROP FUNCTION oarlock.expire_queued(int);
DROP FUNCTION oarlock.set_aside(int[], int);
DROP FUNCTION oarlock.put_away(bigint, uuid, int, text, interval, int);
DROP FUNCTION oarlock.wake_due(int);
DROP VIEW oarlock.claims;
DROP VIEW oarlock.claim_terms;
DROP INDEX oarlock.runs_set_aside;
