-- +goose Up

-- Lists ---------------------------------------------------------------------------------------------------------------

-- Returns the number of a run that is older than a moment, near the newest such run. It searches by halves, since runs get their
-- numbers in the order in which they are made. An index by time would cost each of the many writes of a run.
-- +goose StatementBegin
CREATE FUNCTION oarlock.last_run_before(moment timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    older bigint := 0;
    newer bigint := (SELECT max(r.run_id) FROM oarlock.runs r);
    half  bigint;
    probe record;
BEGIN
    WHILE newer - older > 64 LOOP
        half := older + (newer - older) / 2;
        SELECT r.run_id, r.created_at INTO probe FROM oarlock.runs r WHERE r.run_id > half ORDER BY r.run_id LIMIT 1;
        IF probe.created_at < moment THEN
            older := probe.run_id;
        ELSE
            newer := half;
        END IF;
    END LOOP;
    RETURN older;
END $$;
-- +goose StatementEnd

CREATE TYPE oarlock.run_info AS (
    id bigint, uid uuid, dag text, version int, generation int, state text, reason text, tolerated int, queue text, priority int, params jsonb,
    labels jsonb, run_key text, trigger text, epoch int, worker text, submitted_by text, parent bigint, root bigint, retry_of bigint,
    counts jsonb, run_at timestamptz, logical_at timestamptz, created_at timestamptz, started_at timestamptz, finished_at timestamptz,
    schedule text, previous_logical_at timestamptz, actor text, quiet bool
);
COMMENT ON TYPE oarlock.run_info IS 'A run in a list: the columns of run_status.';

-- Returns a page of runs. The query is planned for the values of each call: a filter that is not given then drops out, and any
-- other uses its index, partial ones too. One plan for all calls would read runs from the newest to the oldest.
-- +goose StatementBegin
CREATE FUNCTION oarlock.page_of_runs(of_dag bigint, in_state text, in_lanes int[], having_labels jsonb, of_parent bigint, since timestamptz,
    before bigint, rows int, everyone bool) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    kept  text := CASE in_state WHEN 'scheduled' THEN 'queued' ELSE in_state END;
    ahead bool := CASE in_state WHEN 'scheduled' THEN true WHEN 'queued' THEN false END;
    -- 5 minutes earlier, because runs of parallel calls, or around a change of the clock, may be out of order
    after bigint := CASE WHEN since IS NOT NULL THEN oarlock.last_run_before(since - interval '5 minutes') END;
BEGIN
    RETURN QUERY
    SELECT r.run_id FROM oarlock.runs r
     WHERE (everyone OR r.submitted_by = session_user)
       AND (of_dag IS NULL OR r.dag_id = of_dag)
       AND (kept IS NULL OR r.state = kept)
       AND (ahead IS NULL OR ahead = (r.epoch = 0 AND r.run_at > clock_timestamp()))
       AND (in_lanes IS NULL OR r.lane_id = ANY (in_lanes))
       AND (having_labels IS NULL OR r.labels @> having_labels)
       AND (of_parent IS NULL OR r.parent_run = of_parent)
       AND (since IS NULL OR r.run_id > after AND r.created_at >= since)
       AND (before IS NULL OR r.run_id < before)
     ORDER BY r.run_id DESC LIMIT rows;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.run_list(dag text DEFAULT NULL, state text DEFAULT NULL, queue text DEFAULT NULL, labels jsonb DEFAULT NULL,
    parent bigint DEFAULT NULL, since timestamptz DEFAULT NULL, before bigint DEFAULT NULL, rows int DEFAULT 50) RETURNS SETOF oarlock.run_info
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- 0 and {}: there is no DAG or queue of this name, and so nothing to find
    of_dag   bigint := CASE WHEN dag IS NOT NULL THEN coalesce((SELECT d.dag_id FROM oarlock.dags d WHERE d.name = run_list.dag), 0) END;
    in_lanes int[] := CASE WHEN queue IS NOT NULL THEN ARRAY(SELECT l.lane_id FROM oarlock.lanes l WHERE l.queue = run_list.queue) END;
BEGIN
    IF rows IS NULL OR rows NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'a page has 1 to 1000 rows, not %', rows USING ERRCODE = 'OA013', HINT = 'the next page begins before => the last id of this one';
    ELSIF state NOT IN ('scheduled', 'queued', 'running', 'waiting', 'paused', 'succeeded', 'failed', 'canceled') THEN
        RAISE EXCEPTION 'a run is never %', left(state, 100)
            USING ERRCODE = 'OA013', HINT = 'states are scheduled, queued, running, waiting, paused, succeeded, failed and canceled';
    END IF;
    RETURN QUERY
    SELECT s.* FROM oarlock.page_of_runs(of_dag, state, in_lanes, labels, parent, since, before, rows, oarlock.sees_all()) p (run_id)
     CROSS JOIN LATERAL oarlock.run_status(p.run_id) s
     ORDER BY s.id DESC;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.run_list IS $$Returns runs, newest first, with the columns of `run_status`. You see your own runs; logins with the role `oarlock_read`, `oarlock_worker` or `oarlock_admin` see all runs.

Each argument that you pass filters the list of runs. `labels` selects runs that have all labels of the argument. `since` selects runs that were made at the time `since` or later. A call returns at most `rows` runs; `rows` is from 1 to 1,000. To get the next runs of the list, pass the last id of a call to the next call as `before`.

The filters `dag`, `parent`, `since` and `state` are fast, except `state => 'succeeded'`: the time of a call with a fast filter depends only on the number of returned rows. With other filters, the database looks through all runs, the newest first, until it has found `rows` runs.

```sql
SELECT id, state, reason FROM oarlock.run_list(dag => 'report', state => 'failed', since => now() - interval '1 day');
```

```sql
SELECT id FROM oarlock.run_list(labels => '{"team": "billing"}', before => 41, rows => 10);
```$$;
-- +goose StatementEnd

CREATE TYPE oarlock.control_info AS (
    id bigint, run bigint, step text, item text, verb text, by text, at timestamptz, decided_at timestamptz,
    outcome text, state text, message text, args jsonb
);
COMMENT ON TYPE oarlock.control_info IS 'A control in a list: an answer, and what was asked for.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.control_list(run bigint) RETURNS SETOF oarlock.control_info
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT (newest.answer).*, newest.args
      FROM (SELECT oarlock.answer_of(c) AS answer, CASE c.verb WHEN 'child_ended' THEN c.args - 'outputs' ELSE c.args END AS args
              FROM oarlock.controls c
              JOIN oarlock.runs r USING (run_id)
             WHERE c.run_id = control_list.run AND (oarlock.is_mine(c.by) OR oarlock.sees_run_of(r.submitted_by))
             ORDER BY c.control_id DESC LIMIT 1000) newest
     ORDER BY (newest.answer).id;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.control_list IS $$Returns the newest 1,000 controls of a run with their results, in the order in which the controls came. If the run belongs to another user and your login does not see all runs, you see only the controls that you sent. A control with the verb `child_ended` tells the step of a parent run that its child run has ended.

```sql
SELECT verb, step, by, outcome, message FROM oarlock.control_list(41);
```$$;
-- +goose StatementEnd

-- Asking once more ----------------------------------------------------------------------------------------------------

-- Makes a new run of a finished one, with other params or of another version. It asks again for the queue, priority and
-- selector that were overridden for the first run. The user that gave these, and operators, get them without a check; for
-- others the DAG must allow them. A child belongs to the submitter of its parent, but the DAG of the parent chose these, and
-- not the submitter.
-- +goose StatementBegin
CREATE FUNCTION oarlock.rerun(run bigint, params jsonb DEFAULT '{}', latest bool DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id    bigint := nextval('oarlock.runs_run_id_seq');
    asked oarlock.request;
    r     oarlock.runs;
    d     oarlock.dags;
    v     oarlock.dag_versions;
    l     oarlock.lanes;
    lane  int;
BEGIN
    SELECT * INTO r FROM oarlock.visible_run(run);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no run %, or it is not yours', run USING ERRCODE = 'OA007', TABLE = 'runs', HINT = 'SELECT run_id FROM oarlock.inbox shows your runs';
    ELSIF r.finished_at IS NULL THEN
        RAISE EXCEPTION 'run % is %: retry it when it has ended, or cancel it', run, r.state USING ERRCODE = 'OA014', HINT = 'SELECT * FROM oarlock.cancel(run)';
    END IF;
    SELECT * INTO d FROM oarlock.dags x WHERE x.dag_id = r.dag_id;
    SELECT * INTO v FROM oarlock.dag_versions x WHERE x.dag_id = r.dag_id AND x.version = r.version;
    SELECT * INTO l FROM oarlock.lanes x WHERE x.lane_id = r.lane_id;
    asked.dag := d.name;
    asked.version := CASE WHEN latest THEN d.current_version ELSE r.version END;
    asked.params := r.params || coalesce(params, '{}');
    asked.queue := nullif(l.queue, v.queue);
    asked.priority := nullif(l.priority, v.priority);
    asked.selector := nullif(l.selector, v.selector);
    asked.labels := (SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}') FROM jsonb_each(r.labels) e WHERE v.labels -> e.key IS DISTINCT FROM e.value);
    asked.logical_at := r.logical_at;
    asked.precomputed := r.precomputed;
    asked.trigger := 'retry';
    asked.submitter := session_user;
    asked.operates := r.submitted_by = session_user AND r.trigger <> 'child' OR oarlock.operates();
    lane := oarlock.insert_checked(id, asked, clock_timestamp());
    UPDATE oarlock.runs x SET retry_of = run, schedule_id = r.schedule_id, schedule = r.schedule, previous_at = r.previous_at WHERE x.run_id = id;
    PERFORM oarlock.wake(lane, 1);
    RETURN id;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.rerun IS $$Makes a new run from a run that has ended, and returns the number of the new run. The new run belongs to you, and its `retry_of` is the number of the old run.

The new run has the labels, the `logical_at` and the overrides of the old run. The new run also has the params of the old run; each value that you pass in `params` replaces the old value of the param. The new run uses the version of the DAG that the old run used. With `latest => true`, the new run uses the current version of the DAG.

If a parent run or another user chose the queue, priority or selector of the old run, the DAG must let submitters choose the value. If the DAG does not let submitters choose the value, the call fails with OA005.

To repeat the failed steps within the same run, use `oarlock.retry`.

```sql
SELECT oarlock.rerun(40, '{"day": "2026-11-21"}', latest => true);
```$$;
-- +goose StatementEnd

-- Returns the events of a run after a given event, if the session user may see the run.
-- +goose StatementBegin
CREATE FUNCTION oarlock.run_events(run bigint, after bigint, rows int) RETURNS TABLE (
    event bigint, at timestamptz, kind text, by text, worker text, epoch int, step text, item text, message text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT e.event_id, e.at, e.kind, e.by, e.worker, e.epoch, coalesce(s.name, e.step::text) || coalesce('~' || nullif(e.alt, 0), ''), e.item, e.message
      FROM oarlock.visible_run(run) r
      JOIN oarlock.dag_versions v USING (dag_id, version)
      JOIN oarlock.events e USING (run_id)
      LEFT JOIN LATERAL oarlock.steps_of(v.spec) s ON s.step = e.step
     WHERE e.event_id > after
     ORDER BY e.event_id LIMIT rows;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.run_events(bigint, bigint, int) IS 'Internal: what happened to a run, from an event on.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.run_attempts(run bigint) RETURNS TABLE (
    step text, item text, attempt int, generation int, state text, failure_kind text, exit_code int, signal int, reason text, worker text,
    started_at timestamptz, finished_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT s.name || coalesce('~' || nullif(a.alt, 0), ''), a.item, a.attempt, a.generation, a.state, a.failure_kind, a.exit_code,
           a.signal, a.reason, a.worker, a.started_at, a.finished_at
      FROM oarlock.visible_run(run) r
      JOIN oarlock.dag_versions v USING (dag_id, version)
     CROSS JOIN oarlock.steps_of(v.spec) s
      JOIN oarlock.attempts a ON a.run_id = r.run_id AND a.step = s.step
     ORDER BY a.step, a.item, a.alt, a.attempt;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.run_attempts(bigint) IS 'Internal: the attempts of a run that later ones superseded.';

-- +goose Down
DROP FUNCTION oarlock.run_attempts(bigint);
DROP FUNCTION oarlock.run_events(bigint, bigint, int);
DROP FUNCTION oarlock.rerun(bigint, jsonb, bool);
DROP FUNCTION oarlock.control_list(bigint);
DROP TYPE oarlock.control_info;
DROP FUNCTION oarlock.run_list(text, text, text, jsonb, bigint, timestamptz, bigint, int);
DROP FUNCTION oarlock.page_of_runs(bigint, text, int[], jsonb, bigint, timestamptz, bigint, int, bool);
DROP TYPE oarlock.run_info;
DROP FUNCTION oarlock.last_run_before(timestamptz);
