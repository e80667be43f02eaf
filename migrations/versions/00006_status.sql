-- +goose Up

-- Returns the time of the last sign of life of a worker that is quiet; null: the worker is not quiet, or has ended. A worker is
-- quiet after a third of its lease without a sign of life, at most ten seconds: it gives two signs in that time. The result is
-- for people only, because workers watch each other by clocks of their own. It uses the time of the statement, since with a
-- moving clock the planner could not inline this function into queries.
CREATE FUNCTION oarlock.quiet_since(w oarlock.workers) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN CASE WHEN (w).state IN ('live', 'draining') AND statement_timestamp() - (w).beat_at
                 > least((w).ttl_ms / 3 * interval '1 millisecond', interval '10 seconds')
            THEN (w).beat_at END;
COMMENT ON FUNCTION oarlock.quiet_since(oarlock.workers) IS 'Internal: since when a worker gives no sign of life.';

-- Returns since when a live worker has been there that would take over the runs of quiet workers; null: there is none. A quiet
-- worker does not count.
CREATE FUNCTION oarlock.watched_since() RETURNS timestamptz
LANGUAGE sql STABLE
RETURN (SELECT min(w.started_at) FROM oarlock.workers w WHERE w.state = 'live' AND oarlock.quiet_since(w) IS NULL);
COMMENT ON FUNCTION oarlock.watched_since() IS 'Internal: since when a worker is there that takes over the runs of quiet ones.';

-- Returns about when other workers take over the runs of a quiet worker; null: no worker is there to do it. They watch it for its
-- whole lease, at the earliest from their own start, and need a moment more. It is later if they lost the database meanwhile, for a
-- time that only they know. Argument watched is the result of watched_since: a query of many workers calls that once, by
-- (SELECT oarlock.watched_since()).
CREATE FUNCTION oarlock.taken_over_by(w oarlock.workers, watched timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN CASE WHEN watched IS NOT NULL THEN greatest((w).beat_at, watched) + (w).ttl_ms * interval '1 millisecond' + interval '3 seconds' END;
COMMENT ON FUNCTION oarlock.taken_over_by(oarlock.workers, timestamptz) IS 'Internal: about when others take the runs of a quiet worker over.';

CREATE FUNCTION oarlock.utc_text(at timestamptz) RETURNS text
LANGUAGE sql STABLE
RETURN to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');

-- Returns the reason to show for a run of a quiet worker; null: the worker is not quiet. The text names moments and no durations,
-- because watchers compare it, and would see a change every second.
CREATE FUNCTION oarlock.why_quiet(w oarlock.workers) RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN oarlock.quiet_since(w) IS NOT NULL THEN
       format('driven by %s, which gives no sign of life since %s; ', (w).name, oarlock.utc_text((w).beat_at))
       || coalesce((SELECT CASE WHEN t.by > clock_timestamp() THEN 'others take it over about ' || oarlock.utc_text(t.by) ELSE 'others take it over soon: time in which they had no database does not count' END
                      FROM oarlock.taken_over_by(w, oarlock.watched_since()) t (by) WHERE t.by IS NOT NULL),
                   'no other worker is there to take it over: start one with `oarlock worker`') END;

-- Returns why no worker takes the runs of a lane; null: one may.
-- +goose StatementBegin
CREATE FUNCTION oarlock.why_not_served(l oarlock.lanes) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    widest int;
    lacks  text;
BEGIN
    IF NOT EXISTS (SELECT FROM oarlock.workers w WHERE w.state = 'live') THEN
        RETURN 'no worker is live: start one with `oarlock worker`';
    ELSIF NOT EXISTS (SELECT FROM oarlock.workers w WHERE w.state = 'live' AND (w.queues = '{}' OR l.queue = ANY (w.queues))) THEN
        RETURN format('no worker serves queue %s', l.queue);
    END IF;
    SELECT min(format('label %s=%s', s.key, s.value)) INTO lacks FROM jsonb_each_text(l.selector) s
     WHERE NOT EXISTS (SELECT FROM oarlock.workers w WHERE w.state = 'live' AND w.labels ->> s.key = s.value);
    lacks := coalesce(lacks, (SELECT min(n) FROM unnest(l.needs) n
                               WHERE NOT EXISTS (SELECT FROM oarlock.workers w WHERE w.state = 'live'
                                                    AND (SELECT o.offers FROM oarlock.worker_offers o WHERE o.worker_id = w.worker_id) @> ARRAY[n])));
    SELECT max(w.slots) INTO widest FROM oarlock.workers w WHERE w.state = 'live';
    IF lacks IS NOT NULL THEN
        RETURN 'no worker offers ' || lacks;
    ELSIF widest < l.slots THEN
        RETURN format('needs %s slots at once, no worker has more than %s', l.slots, widest);
    ELSIF NOT EXISTS (SELECT FROM oarlock.workers w WHERE w.state = 'live'
                         AND oarlock.may_serve(w, (SELECT o.offers FROM oarlock.worker_offers o WHERE o.worker_id = w.worker_id), l)) THEN
        RETURN 'no single worker serves its queue and has all it needs';
    END IF;
    -- Quiet workers count last, because the reason that a quiet worker gave before is not its trouble now.
    SELECT CASE WHEN bool_and(oarlock.quiet_since(w) IS NOT NULL)
                THEN (array_agg(format('no worker that may take it gives a sign of life: %s gave the last at %s; start one with `oarlock worker`',
                                       w.name, oarlock.utc_text(w.beat_at)) ORDER BY w.beat_at DESC, w.name))[1]
                WHEN bool_and(oarlock.quiet_since(w) IS NOT NULL OR w.unfit <> '')
                THEN min(format('worker %s claims nothing: %s', w.name, w.unfit)) FILTER (WHERE oarlock.quiet_since(w) IS NULL) END INTO lacks
      FROM oarlock.workers w
     WHERE w.state = 'live' AND oarlock.may_serve(w, (SELECT o.offers FROM oarlock.worker_offers o WHERE o.worker_id = w.worker_id), l);
    RETURN lacks;
END $$;
-- +goose StatementEnd

-- Returns how many runs of a DAG count against its max_active_runs: runs that a worker holds, and runs that have begun and wait.
CREATE FUNCTION oarlock.active_runs(dag bigint) RETURNS bigint
LANGUAGE sql STABLE
RETURN (SELECT count(*) FROM oarlock.runs r WHERE r.dag_id = dag AND r.worker_id IS NOT NULL)
     + (SELECT count(*) FROM oarlock.runs r WHERE r.dag_id = dag AND r.epoch > 0 AND r.worker_id IS NULL
           AND r.state IN ('queued', 'waiting', 'paused') AND r.stage < 2);
COMMENT ON FUNCTION oarlock.active_runs(bigint) IS 'Internal: how many runs count against the limit of a DAG.';

-- Returns how many runs of a DAG count against the limit of a key, but no more than `most`: runs from their first start to their end.
CREATE FUNCTION oarlock.counted_runs(dag bigint, key text, most int) RETURNS int
LANGUAGE sql STABLE
RETURN (SELECT count(*) FROM (
            SELECT FROM oarlock.runs r
             WHERE r.dag_id = dag AND r.limit_keys[1] = key AND r.limit_keys IS NOT NULL AND r.finished_at IS NULL AND (r.worker_id IS NOT NULL OR r.epoch > 0 AND r.stage < 2)
             LIMIT most) x);
COMMENT ON FUNCTION oarlock.counted_runs(bigint, text, int) IS 'Internal: how many runs count against a limit by key.';

-- Returns whether the limit by key of a DAG has no room for a run with these keys.
CREATE FUNCTION oarlock.is_full(dag bigint, limits jsonb, keys text[]) RETURNS bool
LANGUAGE sql STABLE
RETURN coalesce(oarlock.counted_runs(dag, keys[1], (limits #>> '{0,limit}')::int) >= (limits #>> '{0,limit}')::int, false);
COMMENT ON FUNCTION oarlock.is_full(bigint, jsonb, text[]) IS 'Internal: whether a limit by key has no room for a run.';

-- Returns the place of a run with so many runs before it. Callers count at most twenty.
CREATE FUNCTION oarlock.in_line(before bigint) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN before >= 20 THEN 'behind 20 others or more' ELSE before + 1 || coalesce((ARRAY['st', 'nd', 'rd'])[before + 1], 'th') || ' in line' END;

-- Returns the place of a run among the due runs of its queue, and how many slots of the workers that may serve it are taken. It
-- counts runs that one of these workers may serve and that no pause and no limit of a DAG holds up; of a DAG with a limit, as
-- many as the limit has left. The limit of the queue has room, since otherwise the run shows that reason. At most twenty runs
-- are counted, because lists call this for each run.
-- +goose StatementBegin
CREATE FUNCTION oarlock.place_in_line(r oarlock.runs, l oarlock.lanes) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH crew AS MATERIALIZED (
        SELECT w AS self, o.offers, w.busy, w.slots FROM oarlock.workers w JOIN oarlock.worker_offers o USING (worker_id)
         WHERE w.state = 'live' AND w.unfit = '' AND oarlock.quiet_since(w) IS NULL AND oarlock.may_serve(w, o.offers, l)
    ), held AS ( -- runs of these DAGs may still be in a shared lane, where a worker passes over them
        SELECT ARRAY(SELECT d.dag_id FROM oarlock.dags d WHERE d.paused_by IS NOT NULL OR d.max_active_runs > 0) AS dags
    ), owners AS ( -- without keyed lanes, where most runs wait for their key; the lanes by the DAG that has them to itself, since its limit is one for all of them; 0: the shared lanes
        SELECT o.dag_id, array_agg(o) AS lanes FROM oarlock.lanes o
         WHERE o.queue = (l).queue AND o.priority >= (l).priority AND NOT o.keyed GROUP BY o.dag_id
    )
    SELECT oarlock.in_line(before.n)
           || format(' in queue %s; %s of %s slots taken', (l).queue, least(taken.busy, taken.slots), taken.slots)
      FROM (SELECT count(*) AS n FROM (
                SELECT FROM oarlock.queues q CROSS JOIN owners LEFT JOIN oarlock.dags d ON d.dag_id = owners.dag_id
                 CROSS JOIN generate_series(0, 2) s (stage)
                 CROSS JOIN LATERAL (
                       SELECT count(*) AS n FROM (
                              -- The crew is asked about a shelf once, and only if it has runs that go before. OFFSET 0 keeps that order.
                              SELECT FROM (SELECT o AS lane,
                                                  ARRAY(SELECT x.dag_id FROM oarlock.runs x
                                                         WHERE x.lane_id = o.lane_id AND x.stage = s.stage AND x.state = 'queued'
                                                           AND x.ready_at <= CASE WHEN o.priority > (l).priority OR s.stage < (r).stage THEN statement_timestamp() ELSE (r).ready_at END
                                                           AND (o.priority > (l).priority OR s.stage < (r).stage OR (x.ready_at, x.run_id) < ((r).ready_at, (r).run_id))
                                                         ORDER BY x.ready_at, x.run_id LIMIT CASE WHEN s.stage = 2 AND o.dag_id = 0 THEN 100 ELSE 20 END) AS dags
                                             FROM unnest(owners.lanes) o
                                            WHERE o.priority > (l).priority OR s.stage <= (r).stage OFFSET 0) shelf
                               CROSS JOIN LATERAL unnest(shelf.dags) u (dag_id)
                               WHERE shelf.dags <> '{}'
                                 AND ((shelf.lane).lane_id = (l).lane_id OR EXISTS (SELECT FROM crew c WHERE oarlock.may_serve(c.self, c.offers, shelf.lane)))
                                 AND (s.stage < 2 OR owners.dag_id <> 0 OR u.dag_id <> ALL ((SELECT h.dags FROM held h)::bigint[]))
                               LIMIT 20) x) ahead
                 -- The limit is counted only for a DAG of which something goes before.
                 CROSS JOIN LATERAL generate_series(1, CASE WHEN ahead.n > 0 AND s.stage = 2 AND d.max_active_runs > 0 AND d.dag_id <> (r).dag_id
                                                            THEN least(ahead.n, d.max_active_runs - oarlock.active_runs(d.dag_id)) ELSE ahead.n END)
                 WHERE q.name = (l).queue AND (s.stage < 2 OR q.paused_by IS NULL AND d.paused_by IS NULL)
                 LIMIT 20) c) before,
           (SELECT coalesce(sum(c.busy), 0) AS busy, coalesce(sum(c.slots), 0) AS slots FROM crew c) taken;
END;
-- +goose StatementEnd

-- Returns why the limit by key of its DAG has no room for a queued run: the runs that have the places, and the place of the run among
-- the runs that wait for the same key in its lane. At most five runs are named, and twenty counted.
-- +goose StatementBegin
CREATE FUNCTION oarlock.why_no_room(r oarlock.runs, d oarlock.dags) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    key    text := substr(r.limit_keys[1], 10); -- without the mark of its definition, see limit_keys
    most   int := (d.current_limits #>> '{0,limit}')::int;
    taken  bigint[] := ARRAY(SELECT x.run_id FROM oarlock.runs x
                              WHERE x.dag_id = d.dag_id AND x.limit_keys[1] = r.limit_keys[1] AND x.limit_keys IS NOT NULL AND x.finished_at IS NULL AND (x.worker_id IS NOT NULL OR x.epoch > 0 AND x.stage < 2)
                              ORDER BY x.run_id LIMIT 6);
    before bigint := (SELECT count(*) FROM (
                       SELECT FROM oarlock.runs x
                        WHERE x.lane_id = r.lane_id AND x.limit_keys[1] = r.limit_keys[1] AND x.limit_keys IS NOT NULL AND x.state = 'queued' AND x.stage = 2
                          AND (x.ready_at, x.run_id) < (r.ready_at, r.run_id) ORDER BY x.ready_at, x.run_id LIMIT 20) c);
BEGIN
    RETURN format('waits for key %s of dag %s: %s %s %s; %s', CASE key WHEN '' THEN '""' ELSE left(key, 100) END, d.name,
        CASE WHEN most = 1 THEN 'run' ELSE 'runs' END, array_to_string(taken[: 5], ', ') || CASE WHEN cardinality(taken) > 5 THEN ' and others' ELSE '' END,
        CASE WHEN most = 1 THEN 'has its only place' ELSE format('have its %s places', most) END,
        oarlock.in_line(before));
END $$;
-- +goose StatementEnd

-- Returns the first of these pools for which a worker waits; null: there is none. Workers that wait for a pool leave new runs that begin
-- with it in their lane. A pool that counts by key is one of them only while it is closed: another key of it may have room.
-- +goose StatementBegin
CREATE FUNCTION oarlock.crowded_pool(pools text[]) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT p.name FROM oarlock.pools p
             WHERE p.name = ANY (crowded_pool.pools) AND (NOT p.per_key OR p.closed_until > clock_timestamp())
               AND EXISTS (SELECT FROM oarlock.permits h WHERE h.pool = p.name AND h.granted_at IS NULL) ORDER BY p.name LIMIT 1);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.crowded_pool(text[]) IS 'Internal: a pool for which workers wait.';

-- Returns the first reason why no worker takes a queued run, in words that a person can act on.
-- +goose StatementBegin
CREATE FUNCTION oarlock.why_not_taken(r oarlock.runs) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    l      oarlock.lanes;
    q      oarlock.queues;
    d      oarlock.dags;
    lacks  text;
    active bigint;
    pool   text;
    own    oarlock.workers;
BEGIN
    SELECT * INTO l FROM oarlock.lanes x WHERE x.lane_id = r.lane_id;
    SELECT * INTO q FROM oarlock.queues x WHERE x.name = l.queue;
    SELECT * INTO d FROM oarlock.dags x WHERE x.dag_id = r.dag_id;
    SELECT * INTO own FROM oarlock.workers w WHERE w.state = 'live' AND (w.only_run = r.run_id OR r.parent_run IS NOT NULL AND w.only_run IN (r.parent_run, r.root_id)) LIMIT 1;
    IF r.run_at > clock_timestamp() AND r.epoch = 0 THEN -- a run that has begun goes on, even if the clock was set back
        RETURN 'starts at ' || oarlock.utc_text(r.run_at);
    ELSIF q.paused_by IS NOT NULL AND r.started_at IS NULL THEN -- a run that has begun goes on
        RETURN format('queue %s is paused by %s', q.name, q.paused_by);
    ELSIF d.paused_by IS NOT NULL AND r.started_at IS NULL THEN
        RETURN format('dag %s is paused by %s', d.name, d.paused_by);
    ELSIF oarlock.quiet_since(own) IS NOT NULL THEN
        RETURN format('waits for its worker %s, which gives no sign of life since %s', own.name, oarlock.utc_text(own.beat_at));
    ELSIF own.unfit <> '' THEN
        RETURN format('worker %s claims nothing: %s', own.name, own.unfit);
    ELSIF own.worker_id IS NULL THEN
        lacks := oarlock.why_not_served(l);
        IF lacks IS NOT NULL THEN
            RETURN lacks;
        END IF;
    END IF;
    IF q.max_running > 0 THEN
        SELECT count(*) INTO active FROM oarlock.runs x JOIN oarlock.lanes y USING (lane_id) WHERE x.worker_id IS NOT NULL AND y.queue = q.name;
        IF active >= q.max_running THEN
            RETURN format('queue %s runs %s of %s at once (max_running)', q.name, active, q.max_running);
        END IF;
    END IF;
    IF d.max_active_runs > 0 AND r.stage = 2 THEN -- a run that has begun counts as one of these already
        active := oarlock.active_runs(d.dag_id);
        IF active >= d.max_active_runs THEN
            RETURN format('dag %s has %s of %s active runs', d.name, active, d.max_active_runs);
        END IF;
    END IF;
    IF r.limit_keys IS NOT NULL AND d.current_limits IS NOT NULL AND r.stage = 2 THEN
        IF oarlock.is_full(d.dag_id, d.current_limits, r.limit_keys) THEN
            RETURN oarlock.why_no_room(r, d);
        END IF;
    END IF;
    IF d.current_pools <> '{}' AND r.stage = 2 THEN
        pool := oarlock.crowded_pool(d.current_pools);
        IF pool IS NOT NULL THEN
            RETURN coalesce((SELECT format('waits for pool %s, which %s closed', p.name, p.closed_by) FROM oarlock.pools p WHERE p.name = pool AND p.closed_until > clock_timestamp()),
                            format('waits for pool %s, for which other runs wait already', pool));
        END IF;
    END IF;
    IF own.worker_id IS NOT NULL THEN
        RETURN 'waits for its worker ' || own.name;
    END IF;
    RETURN oarlock.place_in_line(r, l);
END $$;
-- +goose StatementEnd

-- Returns why a queued run is still queued. If it is to be canceled, the text begins with that, for the user that asked for it.
CREATE FUNCTION oarlock.why_queued(r oarlock.runs) RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN oarlock.is_canceling(r) THEN format('cancel accepted, ends when a worker takes it (%s)', oarlock.why_not_taken(r))
            ELSE oarlock.why_not_taken(r) END;

-- Returns the reason why a run that a worker holds makes no progress. The worker may be quiet or unfit; if none of the tasks of the
-- run is under way, it may wait for a slot; else the reason is that of the run itself. Tasks are read only if some task of that
-- worker waits.
-- +goose StatementBegin
CREATE FUNCTION oarlock.why_idle(r oarlock.runs, w oarlock.workers) RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN oarlock.quiet_since(w) IS NOT NULL THEN oarlock.why_quiet(w)
            WHEN (r).reason = '' AND (w).unfit <> '' THEN format('worker %s claims nothing: %s', (w).name, (w).unfit)
            -- A subquery, because NOT EXISTS could be planned as one scan of the tasks of all runs, made even for a run without
            -- a worker.
            WHEN (r).state = 'running' AND (r).reason = '' AND coalesce((w).waiting, 0) > 0
             AND (SELECT true FROM oarlock.tasks t WHERE t.run_id = (r).run_id AND t.state IN ('running', 'finishing', 'retrying', 'waiting') LIMIT 1) IS NULL
            THEN coalesce((SELECT min(t.reason) FROM oarlock.tasks t WHERE t.run_id = (r).run_id AND t.state = 'ready' AND t.reason <> ''),
                          CASE WHEN (w).busy >= (w).slots
                               THEN format('waits for a slot: %s of %s on worker %s are taken', (w).busy, (w).slots, (w).name) END, '')
            WHEN (r).state = 'running' THEN '' -- it no longer waits for its stored reason
            ELSE (r).reason END;
-- +goose StatementEnd

-- Returns a run, if the session user may see it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.visible_run(run bigint) RETURNS SETOF oarlock.runs
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
    SELECT * FROM oarlock.runs r WHERE r.run_id = run AND oarlock.sees_run_of(r.submitted_by);
END;
-- +goose StatementEnd

-- Returns whether the session user may decide an open approval: its approvers may, and if it names none, all users that may control
-- the run, and members of oarlock_approve.
CREATE FUNCTION oarlock.may_decide(approvers text[], submitted_by text) RETURNS bool
LANGUAGE sql STABLE
RETURN CASE WHEN approvers IS NULL THEN submitted_by = session_user OR oarlock.is_one_of('oarlock_admin', 'oarlock_worker', 'oarlock_approve') ELSE oarlock.is_among(approvers) END;

-- Returns whether the session user had a say in a task: its step is an approval that the user may decide, and the approval has
-- waited. It has waited if the task has an attempt, since an attempt begins when an approval begins to wait. The question and the
-- approvers of a replacement are known only while it waits.
CREATE FUNCTION oarlock.had_say(t oarlock.tasks, body jsonb, submitted_by text) RETURNS bool
LANGUAGE sql STABLE
RETURN body ->> 'action' = 'approval' AND (t).alt = 0 AND (t).attempt > 0 AND (t).state <> 'waiting'
   AND oarlock.may_decide(oarlock.approvers_of(body), submitted_by);

-- Returns whether the session user has or had a say in a run: it may decide an approval that waits or has waited there, or it has
-- decided one. It is a separate function, since as a part of each query about a run it would also be planned for the many users
-- that see the run anyhow.
-- +goose StatementBegin
CREATE FUNCTION oarlock.has_say_in(r oarlock.runs) RETURNS bool
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM oarlock.approvals_open a WHERE a.run_id = r.run_id AND oarlock.may_decide(a.approvers, r.submitted_by))
        OR EXISTS (SELECT FROM oarlock.controls c
                    WHERE c.run_id = r.run_id AND c.verb IN ('approve', 'reject') AND c.outcome = 'applied' AND oarlock.is_mine(c.by))
        OR EXISTS (SELECT FROM oarlock.dag_versions v
                    CROSS JOIN LATERAL oarlock.steps_of(v.spec) s
                     JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.step = s.step
                    WHERE v.dag_id = r.dag_id AND v.version = r.version AND oarlock.had_say(t, s.body, r.submitted_by));
END $$;
-- +goose StatementEnd

-- Returns a run, if the session user may see it, or has or had a say in it. A user with only a say gets a status without the params
-- of the run and the outputs of its tasks.
-- +goose StatementBegin
CREATE FUNCTION oarlock.shown_run(run bigint) RETURNS SETOF oarlock.runs
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
    SELECT * FROM oarlock.runs r WHERE r.run_id = run AND (oarlock.sees_run_of(r.submitted_by) OR oarlock.has_say_in(r));
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.run_status(run bigint) RETURNS TABLE (
    id bigint, uid uuid, dag text, version int, generation int, state text, reason text, tolerated int, queue text, priority int, params jsonb,
    labels jsonb, run_key text, trigger text, epoch int, worker text, submitted_by text, parent bigint, root bigint, retry_of bigint,
    counts jsonb, run_at timestamptz, logical_at timestamptz, created_at timestamptz, started_at timestamptz, finished_at timestamptz,
    schedule text, previous_logical_at timestamptz, actor text, quiet bool)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp ROWS 1
BEGIN ATOMIC
    SELECT r.run_id, r.uid, d.name, r.version, r.generation,
           CASE WHEN r.state = 'queued' AND r.epoch = 0 AND r.run_at > clock_timestamp() THEN 'scheduled' ELSE r.state END,
           CASE WHEN NOT whole.sees THEN '' WHEN r.state = 'queued' THEN oarlock.why_queued(r) ELSE oarlock.why_idle(r, w) END,
           r.tolerated, l.queue, l.priority, CASE WHEN whole.sees THEN r.params ELSE '{}' END, CASE WHEN whole.sees THEN r.labels ELSE '{}' END,
           CASE WHEN whole.sees THEN r.run_key END, r.trigger, r.epoch, w.name, r.submitted_by,
           r.parent_run, r.root_id, r.retry_of, r.counts, r.run_at, r.logical_at, r.created_at, r.started_at, r.finished_at, r.schedule,
           r.previous_at, r.actor, whole.sees AND oarlock.quiet_since(w) IS NOT NULL
      FROM oarlock.shown_run(run) r
     CROSS JOIN LATERAL (SELECT oarlock.sees_run_of(r.submitted_by) AS sees OFFSET 0) whole
      JOIN oarlock.dags d USING (dag_id)
      JOIN oarlock.lanes l USING (lane_id)
      LEFT JOIN oarlock.workers w USING (worker_id);
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.run_status IS $$Returns the present state of one run. The function returns no row if the run does not exist, or if you have no right to see the run.

- `state`: `scheduled`, `queued`, `running`, `waiting`, `paused`, `succeeded`, `failed` or `canceled`.
- `reason`: says why the run waits, or why the run ended in its state.
- `quiet`: true if the worker that holds the run gives no sign of life. For a short time after an outage of the database, `quiet` is also true, because the worker could give no sign of life during the outage.
- `uid`: identifies the run for ever, among all installations of Oarlock.
- `id`: the number of the run, for people. After a restore of the database, a new run can get the `id` of a run that the restore lost.

You also see a run of another user if the run has, or had, an approval that you may decide. Of a run that you see only for an approval, you do not see `params`, `labels`, `run_key`, `reason` and `quiet`.

```sql
SELECT state, reason FROM oarlock.run_status(41);
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.task_status(run bigint) RETURNS TABLE (
    step text, item text, kind text, state text, reason text, failure_kind text, exit_code int, attempt int, outputs jsonb, worker text,
    replaces text, next_attempt_at timestamptz, started_at timestamptz, finished_at timestamptz, approval jsonb, run_uid uuid, items int, attempt_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    -- After a retry, rows of items and replacements that did not grow again are history. The lists of items that grew are
    -- unpacked once, not for each item.
    WITH grew AS MATERIALIZED (
        SELECT t.step, t.item, (t.grown ->> 'generation')::int AS generation, coalesce((t.grown ->> 'reset_by')::bigint, 0) AS reset_by, t.grown -> 'items' AS items
          FROM oarlock.shown_run(run) r JOIN oarlock.tasks t USING (run_id) WHERE t.alt = 0 AND t.grown IS NOT NULL
    ), listed AS MATERIALIZED (
        SELECT g.step, i.item ->> 'key' AS item, i.place
          FROM grew g CROSS JOIN jsonb_array_elements(g.items) WITH ORDINALITY i (item, place) WHERE g.item = '')
    SELECT s.name || coalesce('~' || nullif(t.alt, 0), ''), nullif(t.item, ''), CASE WHEN t.alt > 0 THEN 'replacement' ELSE s.kind END,
           coalesce(t.state, CASE WHEN r.finished_at IS NULL THEN 'pending' ELSE 'canceled' END),
           CASE WHEN mine.sees THEN coalesce(t.reason, CASE WHEN r.finished_at IS NULL THEN '' ELSE r.reason END) ELSE '' END,
           nullif(t.failure_kind, ''), t.exit_code, coalesce(t.attempt, 0), CASE WHEN whole.sees THEN coalesce(t.outputs, '{}') ELSE '{}' END, t.worker,
           CASE WHEN t.alt > 0 THEN s.name || coalesce('/' || nullif(t.item, ''), '') END, t.next_attempt_at, t.started_at, t.finished_at,
           CASE WHEN a.run_id IS NOT NULL AND mine.sees THEN
               jsonb_build_object('prompt', a.prompt, 'inputs', a.inputs, 'approvers', a.approvers,
                                  'may_decide', mine.may_decide, 'since', a.since, 'deadline', t.deadline) END, r.uid,
           CASE WHEN whole.sees AND t.item = '' AND t.alt = 0 AND s.kind = 'foreach' THEN jsonb_array_length(node.items) END, t.attempt_at
      FROM oarlock.shown_run(run) r
     CROSS JOIN LATERAL (SELECT oarlock.sees_run_of(r.submitted_by) AS sees OFFSET 0) whole
      JOIN oarlock.dag_versions v USING (dag_id, version)
     CROSS JOIN oarlock.steps_of(v.spec) s
      LEFT JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.step = s.step
      LEFT JOIN oarlock.approvals_open a ON a.run_id = t.run_id AND a.step = t.step AND a.item = t.item AND a.alt = t.alt
     CROSS JOIN LATERAL (SELECT d.may_decide, whole.sees OR d.may_decide OR coalesce(oarlock.had_say(t, s.body, r.submitted_by), false) AS sees
                           FROM (SELECT a.run_id IS NOT NULL AND oarlock.may_decide(a.approvers, r.submitted_by) AS may_decide OFFSET 0) d) mine
      LEFT JOIN grew node ON node.step = t.step AND node.item = '' AND t.item = ''
      LEFT JOIN grew item ON item.step = t.step AND item.item = '' AND t.item <> ''
      LEFT JOIN grew alt ON alt.step = t.step AND alt.item = t.item AND t.alt > 0
      LEFT JOIN listed ON listed.step = t.step AND listed.item = t.item
     WHERE (s.kind <> 'handler' OR t.run_id IS NOT NULL)
       AND (t.run_id IS NULL OR t.item = '' OR t.generation >= item.generation AND coalesce(t.reset_by, 0) >= item.reset_by)
       AND (t.run_id IS NULL OR t.alt = 0 OR t.generation >= alt.generation AND coalesce(t.reset_by, 0) >= alt.reset_by)
       AND (mine.sees OR coalesce(t.item, '') = '')
     ORDER BY s.step, t.item <> '', listed.place, t.item, t.alt;
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.task_status IS $$Returns the tasks of a run in the order of its DAG: steps, items in the order of their list, replacements, and the handlers that ran. A task that has not begun is `pending` and has attempt 0.

- `started_at`: the time when the first attempt of the task began.
- `attempt_at`: the time when the last attempt of the task began. `attempt_at` is null between two attempts.
- `items`: in the row of a foreach step, the number of items in the list of the step. `items` is null until the list is known. An item of a foreach step gets a row of its own when the item has begun, or has waited for a second.
- `run_uid`: the `uid` of the run.
- `approval`: an object while the step waits for approval, otherwise null. The keys of `approval` are `prompt`, `inputs` (a list of objects, see `oarlock.waiting_approvals`), `approvers`, `may_decide` (whether you may decide), `since` and `deadline`. If `approvers` is null, all users that may control the run may decide the approval, and all members of `oarlock_approve`.

If you see a run of another user only for an approval that you may decide, you see the states of the steps of the run, the approval and the result of the approval. If you see a run only for an approval, you see no outputs, reasons and items of other steps.

```sql
SELECT step, item, state, reason, approval ->> 'prompt' AS prompt FROM oarlock.task_status(41);
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.waiting_approvals() RETURNS TABLE (
    run bigint, dag text, step text, item text, prompt text, inputs jsonb, approvers text[], may_decide bool, submitted_by text,
    since timestamptz, deadline timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT a.run_id, d.name, s.name || coalesce('~' || nullif(a.alt, 0), ''), nullif(a.item, ''), a.prompt, a.inputs, a.approvers,
           mine.may_decide, r.submitted_by, a.since, t.deadline
      FROM oarlock.approvals_open a
      JOIN oarlock.runs r USING (run_id)
     CROSS JOIN LATERAL (SELECT oarlock.may_decide(a.approvers, r.submitted_by) AS may_decide) mine
      JOIN oarlock.dags d USING (dag_id)
      JOIN oarlock.dag_versions v USING (dag_id, version)
      JOIN LATERAL oarlock.steps_of(v.spec) s ON s.step = a.step
      JOIN oarlock.tasks t ON t.run_id = a.run_id AND t.step = a.step AND t.item = a.item AND t.alt = a.alt
     WHERE mine.may_decide OR oarlock.sees_run_of(r.submitted_by)
     ORDER BY a.since, a.run_id, a.step, a.item, a.alt;
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.waiting_approvals IS $$Returns the approvals that wait for a decision, the oldest first. You see the approvals of your own runs, and the approvals of other users' runs that you may decide. Logins with the role `oarlock_read`, `oarlock_worker` or `oarlock_admin` see all approvals.

- `prompt`: the question of the approval, with the values of its references. `prompt` is empty if the step has no question.
- `inputs`: a list of objects such as `{"name": "env", "type": "string", "enum": ["dev", "prod"], "default": "dev"}`. An object has the keys of a param in a DAG file: `name`, `type`, and if given `required`, `default`, `enum`, `minimum`, `maximum`, `min_length`, `max_length`, `pattern`, `description`. Pass the values of the inputs to `oarlock.approve` in the argument `outputs`.
- `approvers`: if `approvers` is null, all users that may control the run may decide the approval, and all members of `oarlock_approve`.
- `may_decide`: whether you may decide the approval.
- `deadline`: the time when the approval times out. If `deadline` is null, the approval never times out.

```sql
SELECT run, step, item, prompt, inputs FROM oarlock.waiting_approvals() WHERE may_decide;
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.run_result(run bigint) RETURNS TABLE (
    state text, reason text, is_over bool, outputs jsonb, tolerated int, started_at timestamptz, finished_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp ROWS 1
BEGIN ATOMIC
    SELECT r.state, r.reason, r.finished_at IS NOT NULL,
           CASE WHEN r.finished_at IS NOT NULL THEN
               (SELECT coalesce(jsonb_object_agg(s.name || coalesce('~' || nullif(t.alt, 0), ''), t.outputs), '{}')
                  FROM oarlock.dag_versions v
                 CROSS JOIN oarlock.steps_of(v.spec) s
                  JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.step = s.step AND t.item = '' AND t.outputs IS NOT NULL
                 WHERE v.dag_id = r.dag_id AND v.version = r.version
                   AND (t.alt = 0 OR EXISTS (SELECT FROM oarlock.tasks o -- a replacement that did not grow again after a retry is left out
                                              WHERE o.run_id = t.run_id AND o.step = t.step AND o.item = '' AND o.alt = 0
                                                AND oarlock.grew_in(t, o.grown)))) END,
           r.tolerated, r.started_at, r.finished_at
      FROM oarlock.visible_run(run) r;
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.run_result IS $$Returns the final state of a run, and the outputs of the steps of the run by the name of the step. `outputs` is null until `is_over` is true. The outputs of the items of foreach steps are in `oarlock.task_status`. After a retry with `oarlock.retry`, `is_over` is false again, until the run ends again.

```sql
SELECT state, outputs -> 'load' ->> 'rows' AS rows FROM oarlock.run_result(40) WHERE is_over;
```$$;
-- +goose StatementEnd

-- Returns the figures for an autoscaler. Counts stop at 10,000 a lane and stage: more changes no decision, and a scaler asks often.
-- `wanted` leaves out lanes that no worker at work may serve, unless no worker serves their queue at all: then the first worker is
-- wanted.
-- +goose StatementBegin
CREATE FUNCTION oarlock.scale_hint(queue text DEFAULT NULL) RETURNS TABLE (
    queued bigint, claimed bigint, oldest_ms bigint, workers bigint, slots bigint, busy bigint, waiting bigint, wanted bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp ROWS 1
BEGIN ATOMIC
    WITH worker AS MATERIALIZED ( -- a worker for a single run serves no queue; a quiet worker may be gone, and its tasks still want slots
        SELECT w AS self, w.queues, w.slots, w.busy, w.waiting, o.offers, w.unfit = '' AS claims, oarlock.quiet_since(w) IS NOT NULL AS quiet
          FROM oarlock.workers w JOIN oarlock.worker_offers o USING (worker_id)
         WHERE w.state = 'live' AND w.only_run IS NULL AND (scale_hint.queue IS NULL OR w.queues = '{}' OR scale_hint.queue = ANY (w.queues))
    ), held AS MATERIALIZED (
        SELECT l.queue, count(*) AS runs FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id)
         WHERE r.worker_id IS NOT NULL AND (scale_hint.queue IS NULL OR l.queue = scale_hint.queue) GROUP BY l.queue
    ), due AS MATERIALIZED ( -- due runs of each lane, by DAG; a pause and a limit of the DAG hold up only runs that have not begun
        SELECT l.queue, h.dag_id, h.begun, h.runs, h.free, h.oldest, q.max_running, q.paused_by IS NULL AND d.paused_by IS NULL AS moves, d.max_active_runs,
               d.current_pools <> '{}' AND oarlock.crowded_pool(d.current_pools) IS NOT NULL AS crowded,
               (EXISTS (SELECT FROM worker w WHERE oarlock.may_serve(w.self, w.offers, l))
                OR NOT EXISTS (SELECT FROM worker w WHERE w.queues = '{}' OR l.queue = ANY (w.queues))) AS served
          FROM oarlock.lanes l JOIN oarlock.queues q ON q.name = l.queue
         CROSS JOIN LATERAL (
               SELECT y.dag_id, y.begun, sum(y.runs)::bigint AS runs, min(y.oldest) AS oldest,
                      sum(CASE WHEN y.key IS NULL OR y.current_limits IS NULL OR y.begun THEN y.runs
                               ELSE least(y.runs, y.most - oarlock.counted_runs(y.dag_id, y.key, y.most)) END)::bigint AS free
                 FROM (SELECT x.dag_id, x.begun, x.key, count(*) AS runs, min(x.run_at) AS oldest
                         FROM generate_series(0, 2) s (stage)
                        CROSS JOIN LATERAL (
                              SELECT r.dag_id, s.stage < 2 AS begun, r.limit_keys[1] AS key, r.run_at FROM oarlock.runs r
                               WHERE r.lane_id = l.lane_id AND r.stage = s.stage AND r.state = 'queued' AND r.ready_at <= statement_timestamp()
                               ORDER BY r.ready_at, r.run_id LIMIT 10000) x
                        GROUP BY x.dag_id, x.begun, x.key) z
                 JOIN LATERAL (SELECT z.*, e.current_limits, (e.current_limits #>> '{0,limit}')::int AS most FROM oarlock.dags e WHERE e.dag_id = z.dag_id) y ON true
                GROUP BY y.dag_id, y.begun) h
          JOIN oarlock.dags d ON d.dag_id = h.dag_id
         WHERE scale_hint.queue IS NULL OR l.queue = scale_hint.queue
    ), fresh AS ( -- of a DAG with a limit, as many runs as the limit has left, over all of its queues
        SELECT f.queue, CASE WHEN f.max_active_runs = 0 THEN f.runs ELSE greatest(least(f.runs, f.max_active_runs - f.before
                   - (SELECT count(*) FROM oarlock.runs r WHERE r.worker_id IS NOT NULL AND r.dag_id = f.dag_id)
                   - (SELECT count(*) FROM oarlock.runs r WHERE r.dag_id = f.dag_id AND r.epoch > 0 AND r.worker_id IS NULL
                         AND r.state IN ('queued', 'waiting', 'paused') AND r.stage < 2)), 0) END AS runs
          FROM (SELECT g.queue, g.dag_id, g.max_active_runs, sum(g.free) AS runs,
                       sum(sum(g.free)) OVER (PARTITION BY g.dag_id ORDER BY g.queue) - sum(g.free) AS before
                  FROM due g WHERE NOT g.begun AND g.moves AND g.served AND NOT g.crowded GROUP BY g.queue, g.dag_id, g.max_active_runs) f
    ), startable AS ( -- of a queue with a limit, as many runs as the limit has left
        SELECT CASE WHEN q.max_running = 0 THEN s.runs
                    ELSE greatest(least(s.runs, q.max_running - coalesce((SELECT h.runs FROM held h WHERE h.queue = s.queue), 0)), 0) END AS runs
          FROM (SELECT x.queue, sum(x.runs) AS runs
                  FROM (SELECT f.queue, f.runs FROM fresh f UNION ALL SELECT g.queue, g.runs FROM due g WHERE g.begun AND g.served) x
                 GROUP BY x.queue) s
          JOIN oarlock.queues q ON q.name = s.queue)
    SELECT d.queued, (SELECT coalesce(sum(h.runs), 0) FROM held h)::bigint, d.oldest_ms, w.workers, w.slots, w.busy, w.waiting,
           w.wants + (SELECT coalesce(sum(s.runs), 0) FROM startable s)::bigint
      FROM (SELECT coalesce(sum(g.runs), 0)::bigint AS queued,
                   coalesce((extract(epoch FROM clock_timestamp() - min(g.oldest) FILTER (WHERE g.begun OR g.moves)) * 1000)::bigint, 0) AS oldest_ms FROM due g) d,
           (SELECT count(*) FILTER (WHERE k.claims AND NOT k.quiet) AS workers,
                   coalesce(sum(CASE WHEN k.claims THEN k.slots ELSE k.busy END) FILTER (WHERE NOT k.quiet), 0)::bigint AS slots,
                   coalesce(sum(k.busy) FILTER (WHERE NOT k.quiet), 0)::bigint AS busy,
                   coalesce(sum(k.waiting) FILTER (WHERE NOT k.quiet), 0)::bigint AS waiting,
                   coalesce(sum(k.busy + k.waiting), 0)::bigint AS wants FROM worker k) w;
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.scale_hint IS $$Returns the numbers that an autoscaler needs. With the argument `queue`, the numbers are about one queue. Without the argument `queue`, the numbers are about all queues.

The columns `queued`, `oldest_ms` and `claimed` are about runs:

- `queued`: runs that are due and wait for a worker. Of each lane, `queued` counts at most 10,000 runs.
- `oldest_ms`: how many milliseconds ago the `run_at` of the oldest queued run was. This time includes all time since `run_at` in which a worker held the run or the run was parked. A run that a pause holds back does not count.
- `claimed`: runs that a worker holds.

The columns `workers`, `slots`, `busy` and `waiting` are about live workers. A worker that serves several queues counts in each of its queues:

- `workers`: live workers that claim runs.
- `slots`: the slots of the live workers that claim runs.
- `busy`: slots of live workers that are in use.
- `waiting`: tasks of live workers that wait for a slot.

A worker claims no runs if its host cannot start tasks or if the database takes no records of the worker. A worker that claims no runs does not count in `workers`, and only its busy slots count in `slots`. A quiet worker gives no sign of life and has perhaps ended, so it does not count in `workers`, `slots`, `busy` and `waiting`. `oarlock worker --only` and `oarlock run` serve no queue, so the function does not count them.

`wanted` is the number of slots that you need so that no task and no run waits. To get the number of workers that you need, divide `wanted` by the slots of one worker. `wanted` is the sum of three numbers:

- the busy slots of all workers, quiet workers included
- the tasks of all workers that wait for a slot, quiet workers included
- the queued runs that may start now, one slot for each run

`wanted` leaves out runs that more workers of the same kinds cannot start. More workers cannot start a run that a pause or a full limit of its queue or DAG holds back, a run that begins with a pool for which others wait, and a run that needs a label, an action or slots that no worker of its queue has. If no worker serves the queue, `wanted` also counts runs that need a label, an action or slots, so that the autoscaler starts a first worker. Therefore, give each kind of worker a queue of its own. `wanted` does not count parked runs.

```sql
SELECT wanted FROM oarlock.scale_hint('default');
```$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION oarlock.scale_hint(text);
DROP FUNCTION oarlock.run_result(bigint);
DROP FUNCTION oarlock.waiting_approvals();
DROP FUNCTION oarlock.task_status(bigint);
DROP FUNCTION oarlock.run_status(bigint);
DROP FUNCTION oarlock.shown_run(bigint);
DROP FUNCTION oarlock.has_say_in(oarlock.runs);
DROP FUNCTION oarlock.had_say(oarlock.tasks, jsonb, text);
DROP FUNCTION oarlock.may_decide(text[], text);
DROP FUNCTION oarlock.visible_run(bigint);
DROP FUNCTION oarlock.why_idle(oarlock.runs, oarlock.workers);
DROP FUNCTION oarlock.why_queued(oarlock.runs);
DROP FUNCTION oarlock.why_not_taken(oarlock.runs);
DROP FUNCTION oarlock.crowded_pool(text[]);
DROP FUNCTION oarlock.why_no_room(oarlock.runs, oarlock.dags);
DROP FUNCTION oarlock.place_in_line(oarlock.runs, oarlock.lanes);
DROP FUNCTION oarlock.active_runs(bigint);
DROP FUNCTION oarlock.in_line(bigint);
DROP FUNCTION oarlock.is_full(bigint, jsonb, text[]);
DROP FUNCTION oarlock.counted_runs(bigint, text, int);
DROP FUNCTION oarlock.why_not_served(oarlock.lanes);
DROP FUNCTION oarlock.why_quiet(oarlock.workers);
DROP FUNCTION oarlock.utc_text(timestamptz);
DROP FUNCTION oarlock.taken_over_by(oarlock.workers, timestamptz);
DROP FUNCTION oarlock.watched_since();
DROP FUNCTION oarlock.quiet_since(oarlock.workers);
