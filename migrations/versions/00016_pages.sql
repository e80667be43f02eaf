-- +goose Up

-- The functions that web pages read runs by. Each call reads only the rows that it shows, or, if it counts items, the rows of
-- one run once. `jit = off`, because the planner takes a spec for large, and compiling a plan would take longer than running
-- it. `enable_sort` and other scans and joins are off if an index has the order and a LIMIT bounds the work: with poor
-- statistics, the planner would read all rows and sort them.

-- The lost drives of a run, a handful among up to 100,000 events.
CREATE INDEX events_drives ON oarlock.events (run_id, event_id) WHERE kind = 'lost' AND step IS NULL;

-- Tasks ---------------------------------------------------------------------------------------------------------------

CREATE TYPE oarlock.task_info AS (
    step text, item text, kind text, state text, reason text, failure_kind text, exit_code int, attempt int, worker text, replaces text,
    next_attempt_at timestamptz, started_at timestamptz, finished_at timestamptz, approval jsonb, attempt_at timestamptz
);
COMMENT ON TYPE oarlock.task_info IS 'A task in a page: the columns of task_status without its outputs.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.question_of(r_run bigint, r_submitter text, t_step int, t_item text, t_alt int, t_deadline timestamptz) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT jsonb_build_object('prompt', a.prompt, 'inputs', a.inputs, 'approvers', a.approvers,
                              'may_decide', oarlock.may_decide(a.approvers, r_submitter), 'since', a.since, 'deadline', t_deadline)
      FROM oarlock.approvals_open a
     WHERE a.run_id = r_run AND a.step = t_step AND a.item = t_item AND a.alt = t_alt;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.question_of IS 'Internal: what an open approval asks.';

-- Returns a task, or a step without a task, which is pending as in task_status. It is one expression, so that the planner
-- inlines it: a call would be given whole rows, with the list of all items.
CREATE FUNCTION oarlock.task_info_of(r oarlock.runs, name text, kind text, t oarlock.tasks) RETURNS oarlock.task_info
LANGUAGE sql STABLE
RETURN ROW(name || coalesce('~' || nullif((t).alt, 0), ''), nullif((t).item, ''), CASE WHEN (t).alt > 0 THEN 'replacement' ELSE kind END,
           coalesce((t).state, CASE WHEN (r).finished_at IS NULL THEN 'pending' ELSE 'canceled' END),
           coalesce((t).reason, CASE WHEN (r).finished_at IS NULL THEN '' ELSE (r).reason END),
           nullif((t).failure_kind, ''), (t).exit_code, coalesce((t).attempt, 0), (t).worker,
           CASE WHEN (t).alt > 0 THEN name || coalesce('/' || nullif((t).item, ''), '') END,
           (t).next_attempt_at, (t).started_at, (t).finished_at,
           CASE WHEN (t).state = 'waiting'
                THEN oarlock.question_of((r).run_id, (r).submitted_by, (t).step, (t).item, (t).alt, (t).deadline) END,
           (t).attempt_at)::oarlock.task_info;

-- Returns the newest `most` of the earlier attempts of a task, oldest first.
-- +goose StatementBegin
CREATE FUNCTION oarlock.tries_of(t_run bigint, t_step int, t_item text, t_alt int, most int) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT jsonb_agg(to_jsonb(a) ORDER BY a.attempt)
      FROM (SELECT x.attempt, x.generation, x.state, x.failure_kind, x.exit_code, x.signal, x.reason, x.worker, x.started_at, x.finished_at
              FROM oarlock.attempts x
             WHERE x.run_id = t_run AND x.step = t_step AND x.item = t_item AND x.alt = t_alt
             ORDER BY x.attempt DESC LIMIT most) a;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.tries_of IS 'Internal: the earlier attempts of a task.';

-- Returns the generation in which the items of each foreach step grew, and the control that had reset the step before: after a
-- retry, rows that did not grow again are history. In the first generation of a step that no control reset, all of them grew then,
-- and the list of items is not unpacked.
-- +goose StatementBegin
CREATE FUNCTION oarlock.grown_steps(r_run bigint) RETURNS TABLE (step int, name text, generation int, reset_by bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT t.step, s.name, CASE WHEN r.generation > 1 THEN (t.grown ->> 'generation')::int ELSE 1 END,
           CASE WHEN t.reset_by > 0 THEN coalesce((t.grown ->> 'reset_by')::bigint, 0) ELSE 0 END
      FROM oarlock.runs r
      JOIN oarlock.dag_versions v USING (dag_id, version)
     CROSS JOIN oarlock.steps_of(v.spec) s
      JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.step = s.step AND t.item = '' AND t.alt = 0
     WHERE r.run_id = r_run AND s.kind = 'foreach' AND t.grown IS NOT NULL;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.grown_steps(bigint) IS 'Internal: the foreach steps of a run that have grown.';

-- Returns the items of a run that have begun replacements, each once, with the state of the replacement that counts. A
-- replacement that is under way comes first, then one that failed, then one without a row, which has not begun, then the last.
-- The rows are found by the key alone, which costs less than reading all rows again.
-- +goose StatementBegin
CREATE FUNCTION oarlock.replaced_items(r_run bigint) RETURNS TABLE (
    step int, item text, state text, generation int, reset_by bigint, finished_at timestamptz, retried bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT i.step, i.item, i.state, i.generation, i.reset_by,
           CASE WHEN i.state IN ('succeeded', 'failed', 'skipped', 'upstream_failed', 'canceled') THEN i.finished_at END, i.retried
      FROM (SELECT a.step, a.item, o.generation, coalesce(o.reset_by, 0) AS reset_by, max(a.finished_at) AS finished_at, sum(greatest(a.attempt - 1, 0)) AS retried,
                   coalesce((array_agg(a.state ORDER BY a.alt DESC) FILTER (WHERE a.state IN ('ready', 'running', 'finishing', 'retrying', 'waiting', 'paused')))[1],
                            CASE WHEN bool_or(a.state = 'failed') THEN 'failed'
                                 WHEN count(*) < min((o.grown ->> 'count')::int) + coalesce(sum((a.grown ->> 'count')::int), 0) THEN 'pending' END,
                            (array_agg(a.state ORDER BY a.alt DESC) FILTER (WHERE a.state <> 'replaced'))[1], 'pending') AS state
              FROM oarlock.tasks a
             CROSS JOIN LATERAL (SELECT x.generation, x.reset_by, x.grown FROM oarlock.tasks x -- one row by its key, whatever the statistics are
                                  WHERE x.run_id = a.run_id AND x.step = a.step AND x.item = a.item AND x.alt = 0 AND x.state = 'replaced' LIMIT 1) o
             WHERE a.run_id = r_run AND a.item <> '' AND a.alt > 0 AND oarlock.grew_in(a, o.grown)
             GROUP BY a.step, a.item, o.generation, o.reset_by) i;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.replaced_items(bigint) IS 'Internal: the items of a run that were replaced.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.step_summaries(run bigint) RETURNS TABLE (
    info oarlock.task_info, items int, states jsonb, first_at timestamptz, last_at timestamptz, failed text, retried bigint, tries jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    WITH grew AS MATERIALIZED (
        SELECT g.step, g.generation, g.reset_by FROM oarlock.visible_run(run) r CROSS JOIN oarlock.grown_steps(r.run_id) g
    ), counted AS MATERIALIZED ( -- over all rows of the run; history is left out below, where few groups are left
        SELECT t.step, t.state, t.generation, coalesce(t.reset_by, 0) AS reset_by, count(*) AS items, min(t.started_at) AS first_at, max(t.finished_at) AS last_at,
               min(t.item) FILTER (WHERE t.state = 'failed') AS failed, sum(t.attempt - 1) FILTER (WHERE t.attempt > 1) AS retried
          FROM oarlock.tasks t
         WHERE t.run_id = run AND t.alt = 0 AND t.item <> '' AND (SELECT true FROM oarlock.visible_run(run)) -- evaluated once: a join would cost something for each row
         GROUP BY t.step, t.state, t.generation, t.reset_by
    ), every AS ( -- a replaced item counts with the state of its replacement, and with its own begin
        SELECT c.step, c.state, c.generation, c.reset_by, CASE WHEN c.state = 'replaced' THEN 0 ELSE c.items END AS items, c.first_at, c.last_at, c.failed, c.retried
          FROM counted c
        UNION ALL
        SELECT i.step, i.state, i.generation, i.reset_by, count(*), NULL, max(i.finished_at), min(i.item) FILTER (WHERE i.state = 'failed'), sum(i.retried)
          FROM oarlock.visible_run(run) r CROSS JOIN oarlock.replaced_items(r.run_id) i
         WHERE EXISTS (SELECT FROM counted c WHERE c.state = 'replaced') -- without replaced items, the rows are not read again
         GROUP BY i.step, i.state, i.generation, i.reset_by
    ), stated AS (
        SELECT e.step, e.state, sum(e.items) AS items, min(e.first_at) AS first_at, max(e.last_at) AS last_at, min(e.failed) AS failed, sum(e.retried) AS retried
          FROM every e JOIN grew g ON g.step = e.step AND e.generation >= g.generation AND e.reset_by >= g.reset_by
         GROUP BY e.step, e.state
    ), item AS MATERIALIZED (
        SELECT c.step, jsonb_object_agg(c.state, c.items) FILTER (WHERE c.items > 0) AS states, min(c.first_at) AS first_at, max(c.last_at) AS last_at,
               sum(c.items) FILTER (WHERE c.state IN ('succeeded', 'failed', 'skipped', 'upstream_failed', 'canceled')) AS ended,
               min(c.failed) AS failed, sum(c.retried) AS retried
          FROM stated c GROUP BY c.step)
    SELECT x.info, x.items, x.states, x.first_at, CASE WHEN x.ended = x.items THEN x.last_at END, x.failed, x.retried, x.tries
      FROM (SELECT oarlock.task_info_of(r, s.name, s.kind, t) AS info, s.step, t.alt,
                   CASE WHEN s.kind = 'foreach' AND t.alt = 0 AND t.grown IS NOT NULL THEN coalesce(jsonb_path_query_first(t.grown, '$.items.size()')::int, 0) ELSE 0 END AS items,
                   i.states, i.first_at, i.last_at, i.ended, i.failed, greatest(t.attempt - 1, 0) + coalesce(i.retried, 0) AS retried,
                   CASE WHEN s.kind <> 'foreach' AND (t.attempt > 1 OR t.generation > 1)
                        THEN oarlock.tries_of(r.run_id, t.step, t.item, t.alt, 20) END AS tries
              FROM oarlock.visible_run(run) r
              JOIN oarlock.dag_versions v USING (dag_id, version)
             CROSS JOIN oarlock.steps_of(v.spec) s
              LEFT JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.step = s.step AND t.item = ''
              LEFT JOIN oarlock.tasks o ON t.alt > 0 AND o.run_id = t.run_id AND o.step = t.step AND o.item = '' AND o.alt = 0
              LEFT JOIN item i ON i.step = t.step AND t.alt = 0
             WHERE (s.kind <> 'handler' OR t.run_id IS NOT NULL)
               AND (t.run_id IS NULL OR t.alt = 0 OR oarlock.grew_in(t, o.grown))) x
     ORDER BY x.step, x.alt;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.step_summaries(bigint) IS 'Internal: the steps of a run, their items counted.';

-- Returns a page of the tasks that have a row, in the order of the key. The last row has no task, and shows that the run
-- exists. If the page is not full after 20,000 rows, the last row has the key from which to go on.
-- +goose StatementBegin
CREATE FUNCTION oarlock.task_page(run bigint, of_step text, in_states text[], like_item text, after_step int, after_item text, after_alt int, rows int)
RETURNS TABLE (info oarlock.task_info, at_step int, at_item text, at_alt int)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
SET enable_sort = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    looked  constant int := 20000;
    r       oarlock.runs;
    names   text[];
    kinds   text[];
    grew    int[]; -- the generation in which the items of each step grew, and the control that had reset the step before; null: the first, none
    resets  bigint[];
    wanted  int;
    last    int := 2147483647;
    alone   int := substring(of_step FROM '~([0-9]{1,4})$')::int;
    most    constant int := least(rows, 1000);
    shown   bigint;
BEGIN
    SELECT * INTO r FROM oarlock.visible_run(run);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT array_agg(s.name ORDER BY s.step), array_agg(s.kind ORDER BY s.step),
           CASE WHEN r.generation > 1 OR bool_or(t.reset_by > 0) THEN array_agg(CASE WHEN r.generation > 1 OR t.reset_by > 0 THEN coalesce((t.grown ->> 'generation')::int, 2147483647) ELSE 1 END ORDER BY s.step) END,
           array_agg(CASE WHEN t.reset_by > 0 THEN coalesce((t.grown ->> 'reset_by')::bigint, 0) ELSE 0 END ORDER BY s.step),
           coalesce(min(s.step) FILTER (WHERE s.name = regexp_replace(of_step, '~[0-9]{1,4}$', '')), -1)
      INTO names, kinds, grew, resets, wanted
      FROM oarlock.dag_versions v
     CROSS JOIN oarlock.steps_of(v.spec) s
      LEFT JOIN oarlock.tasks t ON s.kind = 'foreach' AND t.run_id = r.run_id AND t.step = s.step AND t.item = '' AND t.alt = 0
     WHERE v.dag_id = r.dag_id AND v.version = r.version;
    IF of_step IS NOT NULL THEN
        last := wanted;
        IF after_step < wanted THEN
            after_step := wanted; after_item := ''; after_alt := -1;
        END IF;
    END IF;
    -- A range of steps, even for one step: with `step = 1`, the planner does not see that the rows come in the order of their
    -- steps.
    RETURN QUERY
    SELECT oarlock.task_info_of(r, names[t.step + 1], kinds[t.step + 1], t), t.step, t.item, t.alt
      FROM (SELECT y.step, y.item, y.alt
              FROM (SELECT x.step, x.item, x.alt, x.state, x.generation, x.reset_by FROM oarlock.tasks x
                     WHERE x.run_id = r.run_id AND (x.step, x.item, x.alt) > (after_step, after_item, after_alt) AND x.step <= last
                     ORDER BY x.step, x.item, x.alt LIMIT looked) y
             WHERE (in_states IS NULL OR y.state = ANY (in_states))
               AND (like_item IS NULL OR strpos(lower(y.item), lower(like_item)) > 0)
               AND (alone IS NULL OR y.alt = alone)
               AND (grew IS NULL OR y.item = '' OR y.generation >= grew[y.step + 1] AND coalesce(y.reset_by, 0) >= resets[y.step + 1])
               AND (y.alt = 0 OR (SELECT y.generation >= (o.grown ->> 'generation')::int AND coalesce(y.reset_by, 0) >= coalesce((o.grown ->> 'reset_by')::bigint, 0) FROM oarlock.tasks o
                                               WHERE o.run_id = r.run_id AND o.step = y.step AND o.item = y.item AND o.alt = 0))
             ORDER BY y.step, y.item, y.alt LIMIT most) k
      JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.step = k.step AND t.item = k.item AND t.alt = k.alt
     ORDER BY k.step, k.item, k.alt;
    GET DIAGNOSTICS shown = ROW_COUNT;
    IF shown < most THEN
        SELECT x.step, x.item, x.alt INTO at_step, at_item, at_alt FROM oarlock.tasks x
         WHERE x.run_id = r.run_id AND (x.step, x.item, x.alt) > (after_step, after_item, after_alt) AND x.step <= last
         ORDER BY x.step, x.item, x.alt OFFSET looked - 1 LIMIT 1;
    END IF;
    RETURN NEXT;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.task_page IS 'Internal: a page of the tasks of a run.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.task_detail(run bigint, of_step text, of_item text) RETURNS TABLE (
    info oarlock.task_info, outputs jsonb, last_line text, tries jsonb, latest jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off ROWS 1
BEGIN ATOMIC
    SELECT oarlock.task_info_of(r, s.name, s.kind, t), t.outputs, t.last_line,
           CASE WHEN t.run_id IS NOT NULL THEN oarlock.tries_of(r.run_id, t.step, t.item, t.alt, 100) END,
           CASE WHEN t.attempt > 0 THEN jsonb_build_object('attempt', t.attempt, 'generation', t.generation, 'state', t.state, 'failure_kind', t.failure_kind,
               'exit_code', t.exit_code, 'signal', t.signal, 'reason', t.reason, 'worker', t.worker, 'started_at', t.attempt_at, 'finished_at', t.finished_at) END
      FROM oarlock.visible_run(run) r
      JOIN oarlock.dag_versions v USING (dag_id, version)
      JOIN oarlock.steps_of(v.spec) s ON s.name = regexp_replace(of_step, '~[0-9]{1,4}$', '')
     CROSS JOIN LATERAL (SELECT coalesce(substring(of_step FROM '~([0-9]{1,4})$'), '0')::int AS alt) w
      LEFT JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.step = s.step AND t.item = of_item AND t.alt = w.alt
      LEFT JOIN oarlock.tasks n ON t.item <> '' AND n.run_id = t.run_id AND n.step = t.step AND n.item = '' AND n.alt = 0
      LEFT JOIN oarlock.tasks o ON t.alt > 0 AND o.run_id = t.run_id AND o.step = t.step AND o.item = t.item AND o.alt = 0
     WHERE (t.run_id IS NOT NULL OR of_item = '' AND w.alt = 0 AND s.kind <> 'handler')
       AND (t.run_id IS NULL OR t.item = '' OR r.generation = 1 AND n.reset_by IS NULL OR oarlock.grew_in(t, n.grown))
       AND (t.run_id IS NULL OR t.alt = 0 OR oarlock.grew_in(t, o.grown));
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.task_detail(bigint, text, text) IS 'Internal: one task of a run, its attempts with it.';

-- Returns how many items of foreach steps changed to which state in each bucket of time, each step over a span of its own. A
-- bucket includes its end and not its begin, so that the last end is in the last bucket. Changes before the first bucket count
-- in the first, and the caller adds up. A row without a step shows that the run exists. `past` are the moments just after the
-- buckets: finding one among them costs half as much as arithmetic.
-- +goose StatementBegin
CREATE FUNCTION oarlock.item_bands(run bigint, steps text[], since timestamptz[], until timestamptz[], buckets int)
RETURNS TABLE (step text, bucket int, state text, change bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    WITH span AS MATERIALIZED (
        SELECT g.step, g.name, g.generation, g.reset_by,
               ARRAY(SELECT u.since + (u.until - u.since) * (i::float8 / buckets) + interval '1 microsecond' FROM generate_series(1, buckets) i ORDER BY i) AS past
          FROM oarlock.visible_run(run) r
         CROSS JOIN oarlock.grown_steps(r.run_id) g
          JOIN unnest(steps, since, until) u (name, since, until) USING (name)
    ), counted AS MATERIALIZED (
        SELECT t.step, t.state, count(*) AS items, width_bucket(t.started_at, s.past) + 1 AS began, width_bucket(t.finished_at, s.past) + 1 AS ended
          FROM span s JOIN oarlock.tasks t ON t.step = s.step AND t.generation >= s.generation AND coalesce(t.reset_by, 0) >= s.reset_by
         WHERE t.run_id = run AND t.alt = 0 AND t.item <> ''
         GROUP BY t.step, t.state, began, ended
    ), every AS ( -- a replaced item has its own begin, and the end of its replacement
        SELECT c.step, c.state, c.items, c.began, CASE WHEN c.state <> 'replaced' THEN c.ended END AS ended, c.began IS NOT NULL AS has_begun
          FROM counted c
        UNION ALL
        SELECT i.step, i.state, 1, NULL, width_bucket(i.finished_at, s.past) + 1, true
          FROM span s JOIN oarlock.replaced_items(run) i ON i.step = s.step AND i.generation >= s.generation AND i.reset_by >= s.reset_by
         WHERE EXISTS (SELECT FROM counted c WHERE c.state = 'replaced'))
    SELECT g.name, g.bucket, g.state, sum(g.change)
      FROM oarlock.visible_run(run) r
      LEFT JOIN LATERAL (
           SELECT s.name, c.bucket, c.state, c.change
             FROM every e
             JOIN span s USING (step)
            CROSS JOIN LATERAL (VALUES (e.began, 'running', e.items), (CASE WHEN e.has_begun THEN e.ended END, 'running', - e.items), (e.ended, e.state, e.items))
                  c (bucket, state, change)
            WHERE c.bucket <= buckets) g ON true
     GROUP BY g.name, g.bucket, g.state;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.item_bands IS 'Internal: the items of a run over time.';

-- Runs ----------------------------------------------------------------------------------------------------------------

-- Returns the numbers of a page of runs, newest first. If an index covers the filters, or few runs can match, it finds them
-- like run_list. Otherwise it examines no more than `look` runs: of the DAG, in the state, or all. The page may be short then,
-- and `stop` is the run at which the search ended.
-- +goose StatementBegin
CREATE FUNCTION oarlock.run_page(of_dag text, in_states text[], of_queue text, having_labels jsonb, of_parent bigint, made_since timestamptz,
    older_than bigint, rows int, look int) RETURNS TABLE (ids bigint[], stop bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    everyone constant bool := oarlock.sees_all();
    asked    constant text[] := coalesce(in_states, '{NULL}');
    -- 0: there is no DAG of this name, and so nothing to find
    dag      constant bigint := CASE WHEN of_dag IS NOT NULL THEN coalesce((SELECT d.dag_id FROM oarlock.dags d WHERE d.name = of_dag), 0) END;
    in_lanes constant int[] := CASE WHEN of_queue IS NOT NULL THEN ARRAY(SELECT l.lane_id FROM oarlock.lanes l WHERE l.queue = of_queue) END;
    -- the only state by which runs can be found; null: several states, or a DAG, and then all runs are examined
    rare     constant text := CASE WHEN of_dag IS NULL AND cardinality(asked) = 1 AND asked[1] IN ('running', 'waiting', 'paused', 'failed', 'canceled')
                                   THEN asked[1] END;
    most     constant int := least(rows, 1000);
    looked   constant int := least(look, 100000);
    after    bigint;
BEGIN
    IF of_parent IS NOT NULL OR everyone AND having_labels IS NULL AND (asked @> '{succeeded}') IS NOT TRUE
       AND (of_queue IS NULL OR asked <@ '{queued,scheduled}') THEN
        ids := ARRAY(SELECT p.id FROM unnest(asked) s (state)
                      CROSS JOIN LATERAL oarlock.page_of_runs(dag, s.state, in_lanes, having_labels, of_parent, made_since, older_than, most, everyone) p (id)
                      ORDER BY p.id DESC LIMIT most);
        RETURN NEXT;
        RETURN;
    END IF;
    IF made_since IS NOT NULL THEN -- as much earlier as in page_of_runs, for the same reason
        after := oarlock.last_run_before(made_since - interval '5 minutes');
    END IF;
    ids := ARRAY(
        SELECT x.run_id
          FROM (SELECT r.run_id, r.dag_id, r.state, r.epoch, r.run_at, r.lane_id, r.labels, r.submitted_by, r.created_at FROM oarlock.runs r
                 WHERE (dag IS NULL OR r.dag_id = dag) AND (rare IS NULL OR r.state = rare)
                   AND (after IS NULL OR r.run_id > after) AND (older_than IS NULL OR r.run_id < older_than)
                 ORDER BY r.run_id DESC LIMIT looked) x
         WHERE (everyone OR x.submitted_by = session_user)
           AND (asked[1] IS NULL
                OR CASE WHEN x.state = 'queued' AND x.epoch = 0 AND x.run_at > clock_timestamp() THEN 'scheduled' ELSE x.state END = ANY (asked))
           AND (in_lanes IS NULL OR x.lane_id = ANY (in_lanes))
           AND (having_labels IS NULL OR x.labels @> having_labels)
           AND (made_since IS NULL OR x.created_at >= made_since)
         ORDER BY x.run_id DESC LIMIT most);
    IF cardinality(ids) < most THEN
        SELECT r.run_id INTO stop FROM oarlock.runs r
         WHERE (dag IS NULL OR r.dag_id = dag) AND (rare IS NULL OR r.state = rare)
           AND (after IS NULL OR r.run_id > after) AND (older_than IS NULL OR r.run_id < older_than)
         ORDER BY r.run_id DESC OFFSET looked - 1 LIMIT 1;
    END IF;
    RETURN NEXT;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.run_page IS 'Internal: a page of the list of runs.';

-- Returns the facts that the head of a page shows beside run_status: the newest version of the DAG, the usual duration of its
-- runs, and the lost drives. The duration is that of the newest 20 runs that succeeded, among the newest 200 that ended.
-- +goose StatementBegin
CREATE FUNCTION oarlock.run_head(run bigint) RETURNS TABLE (current int, usual_ms float8, drives jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_sort = off SET enable_bitmapscan = off ROWS 1
BEGIN ATOMIC
    SELECT d.current_version, u.ms,
           (SELECT jsonb_agg(jsonb_build_object('at', e.at, 'worker', e.worker, 'epoch', e.epoch, 'message', e.message) ORDER BY e.event_id)
              FROM (SELECT x.event_id, x.at, x.worker, x.epoch, x.message FROM oarlock.events x
                     WHERE x.run_id = r.run_id AND x.kind = 'lost' AND x.step IS NULL
                     ORDER BY x.event_id DESC LIMIT 20) e)
      FROM oarlock.visible_run(run) r
      JOIN oarlock.dags d USING (dag_id)
     CROSS JOIN LATERAL (
           SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY date_part('epoch', o.finished_at - o.started_at) * 1000) AS ms
             FROM (SELECT n.started_at, n.finished_at
                     FROM (SELECT x.run_id, x.state, x.submitted_by, x.started_at, x.finished_at FROM oarlock.runs x
                            WHERE x.dag_id = r.dag_id AND x.finished_at IS NOT NULL
                            ORDER BY x.finished_at DESC LIMIT 200) n
                    WHERE n.state = 'succeeded' AND n.run_id <> r.run_id AND (n.submitted_by = session_user OR (SELECT oarlock.sees_all()))
                    ORDER BY n.finished_at DESC LIMIT 20) o) u;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.run_head(bigint) IS 'Internal: what the head of a page says of a run besides its status.';

-- Compares a run with the ended runs of its DAG: the newest 50 that the user may see, of the newest 200. Runs are alike if they
-- ended in the same state with the same reason. first_run is the oldest run that is alike, and version_before is the version of
-- the run that ended before it; null: first_run is the oldest of the 50. last_good is the last run that succeeded before this
-- one ended, also searched among 200.
-- +goose StatementBegin
CREATE FUNCTION oarlock.failure_history(run bigint) RETURNS TABLE (
    ended int, alike int, first_run bigint, first_version int, version_before int, last_good bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_sort = off SET enable_bitmapscan = off ROWS 1
BEGIN ATOMIC
    SELECT h.ended, h.alike, h.first_run, h.first_version, h.version_before, g.run_id
      FROM oarlock.visible_run(run) r
     CROSS JOIN LATERAL (
           SELECT count(*)::int AS ended, count(*) FILTER (WHERE w.is_alike)::int AS alike,
                  (array_agg(w.run_id ORDER BY w.finished_at, w.run_id) FILTER (WHERE w.is_alike))[1] AS first_run,
                  (array_agg(w.version ORDER BY w.finished_at, w.run_id) FILTER (WHERE w.is_alike))[1] AS first_version,
                  (array_agg(w.version_before ORDER BY w.finished_at, w.run_id) FILTER (WHERE w.is_alike))[1] AS version_before
             FROM (SELECT o.run_id, o.version, o.finished_at, o.state = r.state AND o.reason = r.reason AS is_alike,
                          lag(o.version) OVER (ORDER BY o.finished_at, o.run_id) AS version_before
                     FROM (SELECT n.run_id, n.version, n.state, n.reason, n.finished_at
                             FROM (SELECT x.run_id, x.version, x.state, x.reason, x.submitted_by, x.finished_at FROM oarlock.runs x
                                    WHERE x.dag_id = r.dag_id AND x.finished_at IS NOT NULL
                                    ORDER BY x.finished_at DESC LIMIT 200) n
                            WHERE n.submitted_by = session_user OR (SELECT oarlock.sees_all())
                            ORDER BY n.finished_at DESC LIMIT 50) o) w) h
      LEFT JOIN LATERAL (
           SELECT n.run_id
             FROM (SELECT x.run_id, x.state, x.submitted_by, x.finished_at FROM oarlock.runs x
                    WHERE x.dag_id = r.dag_id AND x.finished_at IS NOT NULL AND x.finished_at <= coalesce(r.finished_at, 'infinity') AND x.run_id <> r.run_id
                    ORDER BY x.finished_at DESC LIMIT 200) n
            WHERE n.state = 'succeeded' AND (n.submitted_by = session_user OR (SELECT oarlock.sees_all()))
            ORDER BY n.finished_at DESC LIMIT 1) g ON true;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.failure_history(bigint) IS 'Internal: how many runs of a DAG ended like one of them, since when, and which succeeded last before.';

-- Returns the events and controls of a run, the newest `rows` of each before an event and a control. The order is by their numbers,
-- since an index has that order, and times of several clocks give none. A row with neither shows that the run exists.
-- +goose StatementBegin
CREATE FUNCTION oarlock.journal(run bigint, before_event bigint, before_control bigint, rows int) RETURNS TABLE (
    event bigint, control bigint, at timestamptz, kind text, by text, worker text, epoch int, step text, item text, message text,
    args jsonb, decided_at timestamptz, outcome text, state text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    SELECT j.event_id, j.control_id, j.at, j.kind, j.by, j.worker, j.epoch, j.step, j.item, j.message, j.args, j.decided_at, j.outcome, j.state
      FROM oarlock.visible_run(run) r
      JOIN oarlock.dag_versions v USING (dag_id, version)
      LEFT JOIN LATERAL (
           SELECT e.event_id, NULL::bigint AS control_id, e.at, e.kind, e.by, e.worker, e.epoch,
                  coalesce(s.name, e.step::text) || coalesce('~' || nullif(e.alt, 0), '') AS step, e.item, e.message,
                  NULL::jsonb AS args, NULL::timestamptz AS decided_at, NULL::text AS outcome, NULL::text AS state
             FROM (SELECT x.* FROM oarlock.events x
                    WHERE x.run_id = r.run_id AND (before_event IS NULL OR x.event_id < before_event)
                    ORDER BY x.event_id DESC LIMIT least(rows, 1001)) e
             LEFT JOIN oarlock.steps_of(v.spec) s ON s.step = e.step
           UNION ALL
           SELECT NULL, (c.answer).id, (c.answer).at, (c.answer).verb, (c.answer).by, NULL, NULL, (c.answer).step, (c.answer).item, (c.answer).message,
                  c.args, (c.answer).decided_at, (c.answer).outcome, (c.answer).state
             FROM (SELECT oarlock.answer_of(x) AS answer, CASE x.verb WHEN 'child_ended' THEN x.args - 'outputs' ELSE x.args END AS args
                     FROM oarlock.controls x
                    WHERE x.run_id = r.run_id AND (before_control IS NULL OR x.control_id < before_control)
                    ORDER BY x.control_id DESC LIMIT least(rows, 1001)) c) j ON true
     ORDER BY j.event_id DESC, j.control_id DESC;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.journal IS 'Internal: what happened to a run and what was asked of it.';

-- +goose Down
DROP FUNCTION oarlock.journal(bigint, bigint, bigint, int);
DROP FUNCTION oarlock.failure_history(bigint);
DROP FUNCTION oarlock.run_head(bigint);
DROP FUNCTION oarlock.run_page(text, text[], text, jsonb, bigint, timestamptz, bigint, int, int);
DROP FUNCTION oarlock.item_bands(bigint, text[], timestamptz[], timestamptz[], int);
DROP FUNCTION oarlock.task_detail(bigint, text, text);
DROP FUNCTION oarlock.task_page(bigint, text, text[], text, int, text, int, int);
DROP FUNCTION oarlock.step_summaries(bigint);
DROP FUNCTION oarlock.replaced_items(bigint);
DROP FUNCTION oarlock.grown_steps(bigint);
DROP FUNCTION oarlock.tries_of(bigint, int, text, int, int);
DROP FUNCTION oarlock.task_info_of(oarlock.runs, text, text, oarlock.tasks);
DROP FUNCTION oarlock.question_of(bigint, text, int, text, int, timestamptz);
DROP TYPE oarlock.task_info;
DROP INDEX oarlock.events_drives;
