-- +goose Up

-- Names of steps --------------------------------------------------------------------------------------------------

-- Returns the steps of a DAG by number: the steps, then the handlers that it has.
-- +goose StatementBegin
CREATE FUNCTION oarlock.steps_of(spec jsonb, OUT step int, OUT name text, OUT kind text, OUT body jsonb) RETURNS SETOF record
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT (row_number() OVER (ORDER BY s.part, s.n) - 1)::int, s.name, CASE WHEN s.part = 2 THEN 'handler' WHEN s.body ? 'foreach' THEN 'foreach' ELSE 'step' END, s.body
      FROM (SELECT 1 AS part, e.n, e.body ->> 'id' AS name, e.body FROM jsonb_array_elements(spec -> 'steps') WITH ORDINALITY e (body, n)
            UNION ALL
            SELECT 2, h.n, '@' || h.name, spec -> 'handler_on' -> h.name
              FROM unnest(ARRAY['init', 'success', 'failure', 'abort', 'exit']) WITH ORDINALITY h (name, n)
             WHERE spec -> 'handler_on' ? h.name) s;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.steps_of(jsonb) IS 'Internal: the steps and handlers of a spec by number.';

-- Requests to a run -----------------------------------------------------------------------------------------------

CREATE TYPE oarlock.answer AS (
    id bigint, run bigint, step text, item text, verb text, by text, at timestamptz, decided_at timestamptz,
    outcome text, state text, message text
);
COMMENT ON TYPE oarlock.answer IS 'What became of a control. No outcome: not decided yet.';

-- Returns a control as the answer to its caller. The cancel of an unfinished run counts as accepted from the start, since no
-- driver finishes a run without having read the cancel.
CREATE FUNCTION oarlock.answer_of(c oarlock.controls) RETURNS oarlock.answer
LANGUAGE sql STABLE
RETURN ROW((c).control_id, (c).run_id, (c).step, (c).item, (c).verb, (c).by, (c).at, (c).decided_at,
           coalesce((c).outcome, CASE WHEN (c).verb = 'cancel' AND (c).step IS NULL THEN 'accepted' END), (c).state, (c).message)::oarlock.answer;

-- Returns the body of a replacement. It takes `action` and `with` from the body that it replaces, if it is of the same kind.
CREATE FUNCTION oarlock.replacing(body jsonb, alt jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN alt ?| '{run,command,result}' OR alt ->> 'action' <> body ->> 'action' THEN alt
            ELSE jsonb_build_object('action', body -> 'action', 'with', body -> 'with') || alt END;

COMMENT ON FUNCTION oarlock.replacing(jsonb, jsonb) IS 'Internal: the body of a replacement.';

-- Returns the bodies that a task of a step may have: the step itself, or for step~n all its replacements. Replacements of
-- replacements count too, since it is not known here which of them runs.
-- +goose StatementBegin
CREATE FUNCTION oarlock.bodies_of(step text, body jsonb) RETURNS SETOF jsonb
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    WITH RECURSIVE possible (body, depth) AS (
        SELECT body, 0
        UNION ALL
        SELECT oarlock.replacing(p.body, w.alt), p.depth + 1
          FROM possible p, jsonb_path_query(p.body, '$.on_error[*].with[*]') w (alt)
    )
    SELECT p.body FROM possible p WHERE (p.depth > 0) = (step ~ '~0*[1-9][0-9]*$');
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.bodies_of(text, jsonb) IS 'Internal: what a step, or one of its replacements, may execute.';

CREATE FUNCTION oarlock.approvers_of(body jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE
RETURN CASE body ->> 'action' WHEN 'approval' THEN
    (SELECT array_agg(n #>> '{}' ORDER BY n #>> '{}') FROM jsonb_path_query(body, '$.with.approvers[*]') n) END;

-- Returns whether one of these names is the session user, or a role that it is a member of.
CREATE FUNCTION oarlock.is_among(names text[]) RETURNS bool
LANGUAGE sql STABLE
RETURN session_user = ANY (names)
    OR EXISTS (SELECT FROM pg_roles a WHERE a.rolname = ANY (names) AND pg_has_role(session_user, a.oid, 'MEMBER'));

-- Returns the approval that waits in a task, as the driver recorded it; null: none waits.
CREATE FUNCTION oarlock.waiting_approval(run bigint, spec jsonb, step text, item text) RETURNS oarlock.approvals_open
LANGUAGE sql STABLE
RETURN (SELECT a FROM oarlock.approvals_open a JOIN oarlock.steps_of(waiting_approval.spec) s ON s.step = a.step
         WHERE a.run_id = waiting_approval.run AND s.name = regexp_replace(waiting_approval.step, '~[0-9]+$', '')
           AND a.item = coalesce(waiting_approval.item, '')
           AND a.alt::text = coalesce(nullif(ltrim(substring(waiting_approval.step, '~([0-9]+)$'), '0'), ''), '0'));

-- Returns the only users and roles that may decide a task, or null if all users may that may control its run; and whether the
-- session user is one of these. A mark of an approval counts as a decision, because an approval marked as succeeded would pass
-- without its approvers. A waiting approval that names no approvers is also for members of oarlock_approve, but they may not mark
-- it. The question and the approvers of a replacement are known once it waits. Before that, a user must be an approver in each of
-- the approvals that it may become to decide it, and in each of its possible bodies to mark it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.deciders(verb text, step text, body jsonb, waits oarlock.approvals_open, OUT approvers text[], OUT approves bool) RETURNS record
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF verb <> 'mark' AND waits.run_id IS NOT NULL THEN
        approvers := waits.approvers;
        approves := CASE WHEN approvers IS NULL THEN oarlock.is_one_of('oarlock_approve') ELSE oarlock.is_among(approvers) END;
        RETURN;
    END IF;
    SELECT array_agg(DISTINCT n ORDER BY n) INTO approvers FROM oarlock.bodies_of(step, body) b, unnest(oarlock.approvers_of(b)) n;
    SELECT bool_and(coalesce(oarlock.is_among(oarlock.approvers_of(b)), false)) INTO approves FROM oarlock.bodies_of(step, body) b
     WHERE verb = 'mark' OR b ->> 'action' = 'approval';
    approves := approves OR verb = 'mark' AND oarlock.operates();
END $$;
-- +goose StatementEnd

-- Returns whether the row of an item or a replacement is of the task that a growth made, and not of an earlier one: a retry makes
-- items and replacements anew, in a later generation of the run or in the same.
CREATE FUNCTION oarlock.grew_in(t oarlock.tasks, grown jsonb) RETURNS bool
LANGUAGE sql IMMUTABLE
RETURN (t).generation >= (grown ->> 'generation')::int AND coalesce((t).reset_by, 0) >= coalesce((grown ->> 'reset_by')::bigint, 0);

-- Returns how a replaced task stands by its replacements: open, failed, canceled, succeeded or skipped. Rows of replacements that did
-- not grow again after a retry are history. Replacements without a row have not begun.
-- +goose StatementBegin
CREATE FUNCTION oarlock.replaced_as(t oarlock.tasks) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE WHEN count(*) < ((t).grown ->> 'count')::int + coalesce(sum((a.grown ->> 'count')::int) FILTER (WHERE a.state = 'replaced'), 0)
                  OR bool_or(a.state NOT IN ('succeeded', 'failed', 'upstream_failed', 'skipped', 'canceled', 'replaced')) THEN 'open'
                WHEN bool_or(a.state IN ('failed', 'upstream_failed') AND NOT a.tolerated) THEN 'failed'
                WHEN bool_or(a.state = 'canceled') THEN 'canceled'
                WHEN bool_or(a.state = 'succeeded' OR a.tolerated) THEN 'succeeded'
                ELSE 'skipped' END
      FROM oarlock.tasks a
     WHERE a.run_id = (t).run_id AND a.step = (t).step AND a.item = (t).item AND a.alt > 0 AND oarlock.grew_in(a, (t).grown);
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.replaced_as(oarlock.tasks) IS 'Internal: the outcome of a replaced task.';

-- Returns the body of the replacement step~n in a run, as the rows say by which replacements the step was replaced; null: it was not
-- made.
-- +goose StatementBegin
CREATE FUNCTION oarlock.body_of(run bigint, spec jsonb, step text, item text) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH RECURSIVE made (step, alt, body, grown) AS (
        SELECT s.step, 0, s.body, NULL::jsonb FROM oarlock.steps_of(spec) s WHERE s.name = regexp_replace(body_of.step, '~[0-9]+$', '')
        UNION ALL
        SELECT m.step, (t.grown ->> 'first_alt')::int + w.n::int - 1, oarlock.replacing(m.body, w.alt), t.grown
          FROM made m
          JOIN oarlock.tasks t ON t.run_id = run AND t.step = m.step AND t.item = coalesce(body_of.item, '') AND t.alt = m.alt AND t.state = 'replaced'
         CROSS JOIN LATERAL jsonb_path_query(jsonb_path_query_array(m.body, '$.on_error[*]') -> coalesce((t.grown ->> 'rule')::int, 0), '$.with[*]') WITH ORDINALITY w (alt, n)
         WHERE t.alt = 0 OR oarlock.grew_in(t, m.grown)
    )
    SELECT m.body FROM made m WHERE m.alt::text = substring(body_of.step, '~0*([1-9][0-9]*)$');
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.body_of(bigint, jsonb, text, text) IS 'Internal: what a replacement executes.';

-- Approvals that guard -------------------------------------------------------------------------------------------

-- An approval that names approvers guards the steps behind it. No other user can open a way past it: neither by marks, nor by
-- retries of single steps, nor by precomputed results, nor by an older version of the DAG. The core decides the same by the state
-- of the run (dagrun/graph.go), and refuses requests that only it can judge. Most requests are refused here, before it sees them.

-- Returns the edges between steps, by name. All steps wait for init.
-- +goose StatementBegin
CREATE FUNCTION oarlock.edges_of(spec jsonb, OUT parent text, OUT child text, OUT state text) RETURNS SETOF record
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT coalesce(d.edge ->> 'step', d.edge #>> '{}'), s.name, coalesce(d.edge ->> 'state', 'succeeded')
      FROM oarlock.steps_of(spec) s, jsonb_path_query(s.body, '$.depends[*]') d (edge)
     WHERE s.kind <> 'handler'
    UNION ALL
    SELECT '@init', s.name, 'succeeded' FROM oarlock.steps_of(spec) s WHERE s.kind <> 'handler' AND spec -> 'handler_on' ? 'init';
END;
-- +goose StatementEnd

-- Returns all steps that depend on a step, directly or not.
-- +goose StatementBegin
CREATE FUNCTION oarlock.steps_behind(spec jsonb, step text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET jit = off
BEGIN ATOMIC
    WITH RECURSIVE edge AS MATERIALIZED (SELECT e.parent, e.child FROM oarlock.edges_of(spec) e),
    behind (name) AS (SELECT step UNION SELECT e.child FROM behind b JOIN edge e ON e.parent = b.name)
    SELECT coalesce(array_agg(b.name) FILTER (WHERE b.name <> step), '{}') FROM behind b;
END;
-- +goose StatementEnd

COMMENT ON FUNCTION oarlock.edges_of(jsonb) IS 'Internal: the edges of a spec, and those from the init handler.';
COMMENT ON FUNCTION oarlock.steps_behind(jsonb, text) IS 'Internal: all steps that depend on a step.';

-- Returns the steps that are an approval with approvers, or may be replaced by one: a row for each list of approvers. The lists of
-- replacements count only if the step itself has none. An approval is passable if a step behind it may start without its success,
-- by its trigger rule for instance, or if the approval may succeed by other means.
-- +goose StatementBegin
CREATE FUNCTION oarlock.guards_of(spec jsonb, OUT step int, OUT name text, OUT approvers text[], OUT passable bool, OUT behind text[]) RETURNS SETOF record
LANGUAGE sql IMMUTABLE SET jit = off -- the planner takes a small spec for a large one, and compiling the plan would take a second
BEGIN ATOMIC
    SELECT g.step, g.name, g.approvers,
           g.body ->> 'action' IS DISTINCT FROM 'approval' OR g.body ?| '{foreach,on_error,continue_on}'
           OR g.name <> '@init' AND EXISTS (
              SELECT FROM oarlock.steps_of(spec) s
               WHERE s.name = ANY (g.behind)
                 AND (coalesce(s.body ->> 'trigger_rule', 'all_success') <> 'all_success'
                      OR s.body @@ '$.continue_on == "skipped" || $.continue_on.skipped == true'
                      OR s.body @@ '$.depends[*].state == "started"')),
           g.behind
      FROM (SELECT DISTINCT s.step, s.name, s.body, oarlock.approvers_of(b.body) AS approvers, oarlock.steps_behind(spec, s.name) AS behind
              FROM oarlock.steps_of(spec) s,
                   oarlock.bodies_of(CASE WHEN oarlock.approvers_of(s.body) IS NULL THEN s.name || '~1' ELSE s.name END, s.body) b (body)
             WHERE oarlock.approvers_of(b.body) IS NOT NULL) g;
END;
-- +goose StatementEnd

-- Returns the approvals with approvers that the session user may decide.
-- +goose StatementBegin
CREATE FUNCTION oarlock.decides_of(spec jsonb) RETURNS text[]
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce(array_agg(g.name), '{}')
      FROM (SELECT x.name FROM oarlock.guards_of(spec) x GROUP BY x.name HAVING bool_and(oarlock.is_among(x.approvers)) OR oarlock.operates()) g;
END;
-- +goose StatementEnd

-- Returns an approval that keeps a user from marking or retrying a step, or from giving a precomputed result for it (run is null
-- then); null: none does. The user may decide the approvals in `decides`. An approval keeps the user from marking and retrying the
-- steps behind it. If it is passable, it also guards itself and all steps that lead to a step behind it, against all three.
-- +goose StatementBegin
CREATE FUNCTION oarlock.guard_of(spec jsonb, run bigint, step text, decides text[]) RETURNS text
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
BEGIN
    RETURN (SELECT min(g.name) FROM oarlock.guards_of(spec) g
             WHERE g.name <> ALL (decides)
               AND (run IS NOT NULL AND step = ANY (g.behind)
                    OR g.passable AND (array_append(oarlock.steps_behind(spec, step), step) && array_append(g.behind, g.name)))
               AND NOT EXISTS ( -- given already
                   SELECT FROM oarlock.tasks t
                    WHERE t.run_id = run AND t.step = g.step AND t.item = '' AND t.alt = 0
                      AND (t.tolerated OR CASE t.state WHEN 'replaced' THEN oarlock.replaced_as(t) ELSE t.state END
                                          = ANY (CASE g.name WHEN '@init' THEN ARRAY['succeeded', 'skipped'] ELSE ARRAY['succeeded'] END))));
END $$;
-- +goose StatementEnd

-- Raises OA008 if an approval keeps a user from a step; see guard_of.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_guard(spec jsonb, run bigint, step text, decides text[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    guard text := oarlock.guard_of(spec, run, step, decides);
BEGIN
    IF guard IS NOT NULL THEN
        RAISE EXCEPTION 'approval % is not given, and step % could lead past it', guard, step
            USING ERRCODE = 'OA008', HINT = format('ask one of its approvers: %s', (
                SELECT string_agg(DISTINCT n, ', ') FROM oarlock.guards_of(spec) g, unnest(g.approvers) n WHERE g.name = guard));
    END IF;
END $$;
-- +goose StatementEnd

-- Raises an error unless the session user may start a version of a DAG. No user may start a retired version. Only operators may
-- start a version that leaves a step unguarded which an approval guards now.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_version(dag bigint, version int) RETURNS void
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    d       oarlock.dags;
    asked   jsonb;
    now     jsonb;
    missing record;
BEGIN
    SELECT * INTO d FROM oarlock.dags x WHERE x.dag_id = dag;
    IF version < d.oldest_version THEN
        RAISE EXCEPTION 'version % of dag % is retired, the oldest is %', version, d.name, d.oldest_version
            USING ERRCODE = 'OA002', HINT = 'leave the version out, or make a new run: oarlock retry RUN --latest';
    ELSIF version = d.current_version OR oarlock.operates() THEN
        RETURN;
    END IF;
    SELECT v.spec INTO asked FROM oarlock.dag_versions v WHERE v.dag_id = dag AND v.version = version;
    SELECT v.spec INTO now FROM oarlock.dag_versions v WHERE v.dag_id = dag AND v.version = d.current_version;
    SELECT g.name AS guard, s.name AS step INTO missing
      FROM oarlock.guards_of(now) g, oarlock.steps_of(asked) s
     WHERE s.name = ANY (g.behind) AND NOT oarlock.is_among(g.approvers)
       AND NOT EXISTS (SELECT FROM oarlock.guards_of(asked) o
                        WHERE s.name = ANY (o.behind) AND o.approvers = g.approvers AND (g.passable OR NOT o.passable))
     ORDER BY s.step LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'version % of dag % does not keep step % behind the approval %, as version % does', version, d.name, missing.step, missing.guard, d.current_version
            USING ERRCODE = 'OA008', HINT = 'leave the version out, or ask an administrator to start this one';
    END IF;
END $$;
-- +goose StatementEnd

-- Returns the outputs of an approval that was given these values, also by a mark as succeeded, because steps behind it read them.
-- Inputs are declared like params, and a name alone is a text. Texts for numbers and booleans are converted, and what was left out
-- has its default. A comment is always allowed. The body is the one of the task, null if that is not made. Patterns are left to the
-- driver, as for params.
-- +goose StatementBegin
CREATE FUNCTION oarlock.read_inputs(verb text, run bigint, step text, item text, body jsonb, waits oarlock.approvals_open, given jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    inputs  jsonb;
    def     jsonb;
    name    text;
    value   jsonb;
    problem text;
    missing text;
    unknown text;
    outputs jsonb := given;
    asks    text;
BEGIN
    IF waits.run_id IS NOT NULL THEN
        inputs := waits.inputs;
    ELSIF body ->> 'action' = 'approval' THEN
        inputs := body #> '{with,inputs}';
    END IF;
    inputs := coalesce((SELECT jsonb_agg('{"type": "string"}' || CASE jsonb_typeof(i) WHEN 'string' THEN jsonb_build_object('name', i) ELSE i END ORDER BY n)
                          FROM jsonb_array_elements(inputs) WITH ORDINALITY e (i, n)), '[]');
    asks := 'it asks for ' || (SELECT string_agg(i ->> 'name', ', ' ORDER BY n) FROM jsonb_array_elements(inputs) WITH ORDINALITY e (i, n));
    FOR i IN 0 .. jsonb_array_length(inputs) - 1 LOOP
        def := inputs -> i;
        name := def ->> 'name';
        value := outputs -> name;
        IF coalesce(value, 'null') = 'null' OR value = '""' AND def -> 'required' = 'true' THEN
            outputs := CASE WHEN def ? 'default' THEN outputs || jsonb_build_object(name, def -> 'default') ELSE outputs - name END;
            missing := CASE WHEN def -> 'required' = 'true' THEN least(missing, name) ELSE missing END;
            CONTINUE;
        END IF;
        problem := oarlock.param_problem(def, value);
        IF problem IS NOT NULL THEN
            RAISE EXCEPTION 'input % of step % %', name, step, problem USING ERRCODE = 'OA013', DETAIL = 'Given: ' || left(value::text, 200),
                HINT = coalesce(nullif(def ->> 'description', ''), 'the step wants it of type ' || (def ->> 'type'));
        END IF;
        IF jsonb_typeof(value) = 'string' AND def ->> 'type' NOT IN ('string', 'json') THEN
            value := CASE def ->> 'type' WHEN 'boolean' THEN to_jsonb((value #>> '{}')::bool) ELSE to_jsonb((value #>> '{}')::numeric) END;
            outputs := outputs || jsonb_build_object(name, value);
        END IF;
    END LOOP;
    unknown := (SELECT min(k) FROM jsonb_object_keys(given) k
                 WHERE inputs <> '[]' AND k <> 'comment' AND NOT inputs @> jsonb_build_array(jsonb_build_object('name', k)));
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'step % needs the input %', step, missing USING ERRCODE = 'OA013',
            HINT = asks || CASE WHEN verb = 'mark' THEN
                format(': give it with the mark (--value %1$s=…), or approve: oarlock approve %2$s %3$s -i %1$s=…', missing, run, step || coalesce('/' || nullif(item, ''), '')) ELSE '' END;
    ELSIF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'step % asks for no input %', step, left(unknown, 100) USING ERRCODE = 'OA013', HINT = asks;
    END IF;
    RETURN outputs;
END $$;
-- +goose StatementEnd

-- Locks a run, and its parent, which may have to learn of the end. The locks are in the order of ids, as in every statement that
-- locks several runs. OA007 is raised both for a run of another user and for a run that does not exist.
-- +goose StatementBegin
CREATE FUNCTION oarlock.lock_run(run bigint, for_all bool) RETURNS oarlock.runs
LANGUAGE plpgsql AS $$
DECLARE
    r oarlock.runs;
BEGIN
    SELECT * INTO r FROM oarlock.runs o WHERE o.run_id = run;
    IF NOT FOUND OR r.submitted_by <> session_user AND NOT for_all THEN
        RAISE EXCEPTION 'there is no run %, or it is not yours', run USING ERRCODE = 'OA007', TABLE = 'runs', HINT = 'SELECT run_id FROM oarlock.inbox shows your runs';
    END IF;
    IF r.parent_run IS NOT NULL THEN
        PERFORM FROM oarlock.runs o WHERE o.run_id = r.parent_run FOR NO KEY UPDATE;
    END IF;
    SELECT * INTO r FROM oarlock.runs o WHERE o.run_id = run FOR NO KEY UPDATE;
    RETURN r;
END $$;
-- +goose StatementEnd

-- Makes a driver read a new control: notifies the worker that holds the run, or queues a parked run so that a worker claims it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.rouse(r oarlock.runs) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF r.claim_id IS NOT NULL THEN
        UPDATE oarlock.runs SET inbox = inbox + 1 WHERE run_id = r.run_id;
        PERFORM pg_notify(w.channel, 'run:' || r.run_id) FROM oarlock.workers w WHERE w.worker_id = r.worker_id;
        RETURN r.state;
    END IF;
    IF r.stage = 2 AND r.state = 'queued' THEN -- its first driver reads the control
        UPDATE oarlock.runs SET inbox = inbox + 1 WHERE run_id = r.run_id;
        RETURN 'queued';
    END IF;
    UPDATE oarlock.runs SET inbox = inbox + 1, state = 'queued', wake_at = NULL, stage = 0, ready_at = clock_timestamp() WHERE run_id = r.run_id;
    PERFORM oarlock.wake(r.lane_id, 1, 2);
    RETURN 'queued';
END $$;
-- +goose StatementEnd

-- Reports the end of a run to its parent, as the journal does when a driver ends a run.
-- +goose StatementBegin
CREATE FUNCTION oarlock.tell_parent(child oarlock.runs, state text, reason text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    parent oarlock.runs;
BEGIN
    SELECT * INTO parent FROM oarlock.runs r WHERE r.run_id = child.parent_run AND r.finished_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO oarlock.controls (run_id, step, item, verb, args, by)
    SELECT parent.run_id, s.name || coalesce('~' || nullif(child.parent_alt, 0), ''), nullif(child.parent_item, ''), 'child_ended',
           jsonb_build_object('ref', child.run_id::text, 'state', state, 'reason', reason), 'run ' || child.run_id
      FROM oarlock.dag_versions v, oarlock.steps_of(v.spec) s
     WHERE v.dag_id = parent.dag_id AND v.version = parent.version AND s.step = child.parent_step;
    PERFORM oarlock.rouse(parent);
END $$;
-- +goose StatementEnd

-- Refuses the open controls of a run that ends without a driver.
-- +goose StatementBegin
CREATE FUNCTION oarlock.refuse_open(run bigint, state text, why text) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE oarlock.controls c SET decided_at = clock_timestamp(), outcome = 'refused', state = refuse_open.state, message = refuse_open.why
     WHERE c.run_id = refuse_open.run AND c.decided_at IS NULL;
END;
-- +goose StatementEnd

-- Cancels a run that did not start in this generation. There is nothing to stop and no handler to run, so the run ends here. It
-- must not wait for a driver: while its queue or its DAG is paused, no worker claims it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.cancel_queued(r oarlock.runs, by text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    why text := 'canceled by ' || by;
BEGIN
    PERFORM oarlock.refuse_open(r.run_id, 'canceled', why);
    UPDATE oarlock.runs SET state = 'canceled', reason = why, queue_deadline = NULL, inbox = inbox + 1, finished_at = clock_timestamp()
     WHERE run_id = r.run_id;
    INSERT INTO oarlock.events (run_id, kind, by, message) VALUES (r.run_id, 'canceled', cancel_queued.by, why || ' before it started');
    PERFORM pg_notify(f.channel, 'run:' || r.run_id) FROM oarlock.followers f WHERE f.run_id = r.run_id;
    IF r.parent_run IS NOT NULL THEN
        PERFORM oarlock.tell_parent(r, 'canceled', why);
    END IF;
END $$;
-- +goose StatementEnd

-- Returns why a run that no worker holds needs a worker before a cancel can end it; null: it needs none. Handlers run first, unless
-- they are skipped. Only a worker cancels children, and records results that a task committed in its own transaction. A lost
-- worker may just have asked for a child that is not committed yet: the next worker asks again by the same key, waits for the
-- child, and cancels it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.cancel_needs(r oarlock.runs, now bool) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    child    bigint := (SELECT min(c.run_id) FROM oarlock.runs c WHERE c.parent_run = r.run_id AND c.finished_at IS NULL);
    handlers text;
BEGIN
    IF child IS NOT NULL THEN
        RETURN format('child run %s is to end first', child);
    ELSIF EXISTS (SELECT FROM oarlock.tasks t
                    JOIN oarlock.dag_versions v ON v.dag_id = r.dag_id AND v.version = r.version
                   CROSS JOIN LATERAL oarlock.steps_of(v.spec) s
                   CROSS JOIN LATERAL oarlock.bodies_of(CASE WHEN t.alt > 0 THEN s.name || '~1' ELSE s.name END, s.body) b (body)
                   WHERE t.run_id = r.run_id AND t.state = 'waiting' AND t.external_ref IS NULL AND s.step = t.step AND b.body ->> 'action' = 'dag.run') THEN
        RETURN 'a child run is being asked for, which is to end first';
    ELSIF EXISTS (SELECT FROM oarlock.tasks t WHERE t.run_id = r.run_id AND t.state = 'running' AND t.settled IS NOT NULL) THEN
        RETURN 'a task has committed its result, which is to be recorded first';
    ELSIF NOT now THEN
        SELECT string_agg('@' || h.name, ' and ' ORDER BY h.name) INTO handlers
          FROM oarlock.dag_versions v, unnest(ARRAY['abort', 'exit']) h (name)
         WHERE v.dag_id = r.dag_id AND v.version = r.version AND v.spec -> 'handler_on' ? h.name;
        RETURN handlers || ' is to run first';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Ends the tasks of a canceled run. Tasks without a row get one, because a retry of the run covers all its tasks. The log of an
-- attempt that its worker could not end gets its final marker.
-- +goose StatementBegin
CREATE FUNCTION oarlock.cancel_tasks(r oarlock.runs, why text, ended timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, final, reason, lines)
    SELECT t.log_day, t.run_id, t.step, t.item, t.alt, t.attempt, coalesce(l.last + 1, 0), 0, ended, '', true,
           CASE WHEN t.state = 'running' THEN 'lost' ELSE 'canceled' END, coalesce(l.lines, 0)
      FROM oarlock.tasks t
     CROSS JOIN LATERAL (SELECT max(c.seq) AS last, max(c.lines) AS lines, coalesce(bool_or(c.final), false) AS final FROM oarlock.log_chunks c
                          WHERE (c.log_day, c.run_id, c.step, c.item, c.alt, c.attempt) = (t.log_day, t.run_id, t.step, t.item, t.alt, t.attempt)) l
     WHERE t.run_id = r.run_id AND t.log_day IS NOT NULL AND NOT l.final
       AND (t.state IN ('running', 'finishing') OR t.state = 'retrying' AND t.publishing);
    INSERT INTO oarlock.tasks (run_id, step, item, state, attempt, generation, reset_by, epoch, seq, reason, finished_at)
    SELECT r.run_id, p.step, p.item, 'canceled', 0, r.generation, p.reset_by, r.epoch, 0, why, ended
      FROM (SELECT s.step, '' AS item, NULL::bigint AS reset_by FROM oarlock.dag_versions v, oarlock.steps_of(v.spec) s
             WHERE v.dag_id = r.dag_id AND v.version = r.version AND s.kind <> 'handler'
             UNION ALL
            SELECT t.step, i.item ->> 'key', (t.grown ->> 'reset_by')::bigint FROM oarlock.tasks t, jsonb_array_elements(t.grown -> 'items') i (item)
             WHERE t.run_id = r.run_id AND t.item = '' AND t.alt = 0 AND t.state = 'running') p
        ON CONFLICT DO NOTHING;
    UPDATE oarlock.tasks t
       SET state = 'canceled', epoch = r.epoch, reason = why, failure_kind = NULL, publishing = false, request = '', request_by = '', marked = '',
           next_attempt_at = NULL, deadline = NULL, finished_at = ended
     WHERE t.run_id = r.run_id AND t.state IN ('pending', 'ready', 'running', 'finishing', 'retrying', 'waiting', 'paused');
    DELETE FROM oarlock.approvals_open a WHERE a.run_id = r.run_id;
END $$;
-- +goose StatementEnd

-- Cancels a run that has begun and that no worker holds, in the statement that asks for it. Its worker may be gone for good, and
-- no other worker may fit.
-- +goose StatementBegin
CREATE FUNCTION oarlock.cancel_unheld(r oarlock.runs, now bool, by text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    ended timestamptz := clock_timestamp();
    first text := CASE WHEN r.ending IN ('cancel', 'now') THEN r.ending_by
                       ELSE (SELECT c.by FROM oarlock.controls c WHERE c.run_id = r.run_id AND c.decided_at IS NULL AND c.verb = 'cancel' AND c.step IS NULL
                              ORDER BY c.control_id LIMIT 1) END;
    asker text := coalesce(first, by);
    why   text := 'canceled by ' || asker;
BEGIN
    PERFORM oarlock.cancel_tasks(r, why, ended);
    UPDATE oarlock.controls c SET decided_at = ended, outcome = 'applied', state = 'canceled', message = NULL
     WHERE c.run_id = r.run_id AND c.decided_at IS NULL AND c.verb = 'cancel' AND c.step IS NULL;
    PERFORM oarlock.refuse_open(r.run_id, 'canceled', why);
    UPDATE oarlock.runs o
       SET state = 'canceled', reason = why, ending = CASE WHEN now THEN 'now' ELSE 'cancel' END, ending_by = asker, ending_text = '',
           paused_by = '', deadline = NULL, left_ms = 0, wake_at = NULL, inbox = o.inbox + 1, finished_at = ended,
           counts = o.counts || jsonb_build_object('open', 0, 'canceled', (o.counts ->> 'open')::int + (o.counts ->> 'canceled')::int)
     WHERE o.run_id = r.run_id;
    INSERT INTO oarlock.events (run_id, at, kind, by, message) VALUES (r.run_id, ended, 'canceled', cancel_unheld.by, why || ' while no worker held it');
    PERFORM pg_notify(f.channel, 'run:' || r.run_id) FROM oarlock.followers f WHERE f.run_id = r.run_id;
    IF r.parent_run IS NOT NULL THEN
        PERFORM oarlock.tell_parent(r, 'canceled', why);
    END IF;
END $$;
-- +goose StatementEnd

-- Returns whether something of an ended run failed, was canceled or never began. Such a run has tasks for a retry of what failed.
-- A step that is retried makes its items and replacements anew. Rows that it did not make anew are history. A foreach step has the
-- outcome of its items. An item that has not begun may have no row: it waited for a slot, or for another item to end.
-- +goose StatementBegin
CREATE FUNCTION oarlock.has_unfinished(run bigint, spec jsonb) RETURNS bool
LANGUAGE sql STABLE SET jit = off
BEGIN ATOMIC
    SELECT EXISTS (SELECT FROM oarlock.steps_of(spec) s
                    WHERE s.kind <> 'handler'
                      AND NOT EXISTS (SELECT FROM oarlock.tasks t
                                       WHERE t.run_id = run AND t.step = s.step AND t.item = '' AND t.alt = 0
                                         AND t.state IN ('succeeded', 'failed', 'upstream_failed', 'skipped', 'canceled', 'replaced')))
        OR EXISTS (SELECT FROM oarlock.tasks t, jsonb_array_elements(t.grown -> 'items') i (item)
                    WHERE t.run_id = run AND t.item = '' AND t.alt = 0
                      AND NOT EXISTS (SELECT FROM oarlock.tasks o
                                       WHERE o.run_id = run AND o.step = t.step AND o.item = i.item ->> 'key' AND o.alt = 0
                                         AND oarlock.grew_in(o, t.grown)))
        OR EXISTS (SELECT FROM oarlock.tasks t
                     JOIN oarlock.steps_of(spec) s ON s.step = t.step
                    WHERE t.run_id = run
                      AND CASE t.state WHEN 'failed' THEN NOT t.tolerated
                                       WHEN 'replaced' THEN s.kind <> 'handler' AND t.alt = 0 AND oarlock.replaced_as(t) = 'open'
                                       ELSE t.state IN ('upstream_failed', 'canceled') END
                      AND (t.item <> '' OR t.alt > 0 OR NOT coalesce(jsonb_path_exists(t.grown, '$.items[0]'), false))
                      AND (t.item = '' OR (SELECT oarlock.grew_in(t, n.grown) FROM oarlock.tasks n
                                            WHERE n.run_id = t.run_id AND n.step = t.step AND n.item = '' AND n.alt = 0))
                      AND (t.alt = 0 OR (SELECT oarlock.grew_in(t, o.grown) FROM oarlock.tasks o
                                          WHERE o.run_id = t.run_id AND o.step = t.step AND o.item = t.item AND o.alt = 0)));
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.has_unfinished(bigint, jsonb) IS 'Internal: whether a retry of what failed would reset anything.';

-- Returns why a retry of an ended run would reset nothing; null: it resets something. The core decides the same, in the same words
-- (dagrun/retry.go). But it decides once a driver has the run, and then the run is open again and its former end is gone.
-- +goose StatementBegin
CREATE FUNCTION oarlock.why_no_retry(run bigint, spec jsonb, mode text, step text, item text) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE WHEN mode = 'failed' AND NOT oarlock.has_unfinished(run, spec) THEN 'there is nothing to repeat: no task failed or was canceled'
                WHEN step LIKE '@%' THEN 'a handler cannot be repeated alone: retry the run'
                WHEN step IS NOT NULL AND item <> '' AND NOT EXISTS (
                     SELECT FROM oarlock.steps_of(spec) s JOIN oarlock.tasks t ON t.run_id = run AND t.step = s.step AND t.item = '' AND t.alt = 0
                      WHERE s.name = why_no_retry.step AND t.grown -> 'items' @> jsonb_build_array(jsonb_build_object('key', why_no_retry.item)))
                THEN format('step %s has no item %s', step, item) END;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.why_no_retry(bigint, jsonb, text, text, text) IS 'Internal: why a retry of an ended run is refused.';

-- Opens the next generation of a finished run. The next driver reads in the control which tasks to do again.
-- +goose StatementBegin
CREATE FUNCTION oarlock.reopen(r oarlock.runs) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    lane int := oarlock.hold_lane(r.lane_id);
BEGIN
    UPDATE oarlock.runs
       SET lane_id = lane, generation = generation + 1, state = 'queued', reason = '', losses = 0, inbox = inbox + 1, wake_at = NULL,
           ending = '', ending_by = '', ending_text = '', paused_by = '', deadline = NULL, left_ms = 0, tolerated = 0,
           stage = 2, ready_at = oarlock.place_of(run_id, run_at, clock_timestamp()), started_at = NULL, finished_at = NULL
     WHERE run_id = r.run_id;
    PERFORM oarlock.wake(lane, 1, at => r.run_at);
END $$;
-- +goose StatementEnd

-- Returns whether a cancel was asked for before; a second cancel skips the handlers.
CREATE FUNCTION oarlock.is_canceling(r oarlock.runs) RETURNS bool
LANGUAGE sql STABLE
RETURN (r).ending IN ('cancel', 'now')
    OR EXISTS (SELECT FROM oarlock.controls c WHERE c.run_id = (r).run_id AND c.decided_at IS NULL AND c.verb = 'cancel' AND c.step IS NULL);

-- Decides a control at once if it can, and returns [outcome, state, message]. Any other control waits for the driver of the run.
-- Its outcome is null then, and if no worker holds the run, the message of a cancel names the reason why it needs one.
-- +goose StatementBegin
CREATE FUNCTION oarlock.decide(r oarlock.runs, spec jsonb, step text, item text, verb text, args jsonb, by text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    now   bool := coalesce((args ->> 'now')::bool, false);
    needs text;
    why   text;
BEGIN
    IF verb = 'retry' AND r.finished_at IS NULL AND step IS NULL THEN
        RETURN ARRAY['refused', r.state, format('run %1$s is %2$s: name the step to repeat (oarlock retry %1$s --step STEP), retry the run when it has ended, or cancel it', r.run_id, r.state)];
    ELSIF verb = 'retry' AND r.finished_at IS NULL AND r.started_at IS NULL AND r.generation = 1 THEN
        RETURN ARRAY['refused', r.state, format('run %s has not started: there is nothing to repeat', r.run_id)];
    ELSIF verb = 'retry' AND r.finished_at IS NULL THEN
        PERFORM oarlock.rouse(r);
    ELSIF verb <> 'retry' AND r.finished_at IS NOT NULL THEN
        RETURN ARRAY['refused', r.state, format('run %s is %s already%s', r.run_id, r.state, CASE WHEN verb NOT IN ('cancel', 'approve', 'reject') THEN ': retry it' END)];
    ELSIF verb = 'cancel' AND step IS NULL AND r.state = 'queued' AND r.started_at IS NULL THEN
        PERFORM oarlock.cancel_queued(r, by);
        RETURN ARRAY['applied', 'canceled', NULL];
    ELSIF verb = 'cancel' AND step IS NULL AND r.claim_id IS NULL THEN
        now := now OR oarlock.is_canceling(r);
        needs := oarlock.cancel_needs(r, now);
        IF needs IS NULL THEN
            PERFORM oarlock.cancel_unheld(r, now, by);
            RETURN ARRAY['applied', 'canceled', NULL];
        END IF;
        PERFORM oarlock.rouse(r);
        RETURN ARRAY[NULL, NULL, 'ends when a worker takes it: ' || needs];
    ELSIF verb = 'retry' AND r.run_id <= (SELECT i.copied_to FROM oarlock.installation i) THEN -- a retry would use the keys of the original once more
        RETURN ARRAY['refused', r.state, format('run %s is of the installation that this database was copied from: make a new run of it (oarlock retry %s --latest)', r.run_id, r.run_id)];
    ELSIF verb = 'retry' THEN
        why := oarlock.why_no_retry(r.run_id, spec, args ->> 'mode', regexp_replace(step, '~[0-9]+$', ''), item);
        IF why IS NOT NULL THEN
            RETURN ARRAY['refused', r.state, why];
        END IF;
        PERFORM oarlock.reopen(r);
    ELSE
        PERFORM oarlock.rouse(r);
    END IF;
    RETURN ARRAY[NULL, NULL, NULL];
END $$;
-- +goose StatementEnd

-- Makes a control of a run; there is no other way. It locks the row of the run first. So a control comes either before the end
-- of the run, and the flush that would end the run finds the inbox changed, or after the end. The control is recorded under the
-- name of the login, unless a function of this schema gives another.
-- +goose StatementBegin
CREATE FUNCTION oarlock.request_control(run bigint, step text, item text, verb text, args jsonb, by text DEFAULT oarlock.who()) RETURNS oarlock.answer
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    r         oarlock.runs;
    spec      jsonb;
    body      jsonb;
    asks      jsonb; -- the body of the task, which may ask for inputs
    plain     text := regexp_replace(step, '~[0-9]+$', '');
    decides   text[];
    approvers text[]; -- the only users and roles that may; null: all that may control the run
    approves  bool;
    waits     oarlock.approvals_open;
    waiting   text;
    answer    text[];
    made      oarlock.controls;
BEGIN
    SELECT v.spec INTO spec FROM oarlock.runs o JOIN oarlock.dag_versions v USING (dag_id, version) WHERE o.run_id = run;
    SELECT s.body INTO body FROM oarlock.steps_of(spec) s WHERE s.name = plain;
    IF verb IN ('approve', 'reject', 'mark') THEN
        waits := oarlock.waiting_approval(run, spec, step, item);
        SELECT * INTO approvers, approves FROM oarlock.deciders(verb, step, body, waits);
    END IF;
    r := oarlock.lock_run(run, coalesce(approves, false) OR oarlock.operates());
    IF verb IN ('approve', 'reject') THEN -- once more under the lock: the approval may have been decided meanwhile, and a replacement may wait in its place
        waits := oarlock.waiting_approval(run, spec, step, item);
        SELECT * INTO approvers, approves FROM oarlock.deciders(verb, step, body, waits);
    END IF;
    IF approvers IS NOT NULL AND NOT approves THEN
        RAISE EXCEPTION 'only % may decide step %', array_to_string(approvers, ', '), step USING ERRCODE = 'OA008', HINT = 'ask one of them';
    END IF;
    IF step IS NOT NULL AND body IS NULL THEN
        RAISE EXCEPTION 'run % has no step %', run, left(step, 100) USING ERRCODE = 'OA007',
            HINT = (SELECT 'it has ' || left(string_agg(s.name, ', ' ORDER BY s.step), 500) FROM oarlock.dag_versions v, oarlock.steps_of(v.spec) s
                     WHERE v.dag_id = r.dag_id AND v.version = r.version);
    END IF;
    IF verb IN ('approve', 'reject') AND body ? 'foreach' AND coalesce(item, '') = '' THEN
        waiting := (SELECT left(string_agg(step || '/' || a.item, ', ' ORDER BY a.item), 500)
                      FROM oarlock.approvals_open a JOIN oarlock.steps_of(spec) s ON s.step = a.step
                     WHERE a.run_id = run AND s.name = plain AND plain || coalesce('~' || nullif(a.alt, 0), '') = step);
        IF waiting IS NOT NULL THEN
            RAISE EXCEPTION 'step % has items, and each of them waits for its own approval', step USING ERRCODE = 'OA013', HINT = 'name the item: ' || waiting;
        END IF;
    END IF;
    PERFORM oarlock.check_depth('outputs', args -> 'outputs');
    IF (verb = 'approve' OR verb = 'mark' AND args ->> 'as' = 'succeeded') AND (NOT body ? 'foreach' OR item <> '') THEN
        asks := CASE WHEN step !~ '~0*[1-9][0-9]*$' THEN body WHEN verb = 'mark' THEN oarlock.body_of(run, spec, step, item) END;
        args := args || jsonb_build_object('outputs', oarlock.read_inputs(verb, run, step, item, asks, waits, args -> 'outputs'));
    END IF;
    IF verb IN ('mark', 'retry') AND step IS NOT NULL AND jsonb_path_exists(spec, '$.**.approvers') THEN
        decides := array_remove(oarlock.decides_of(spec) || CASE WHEN approves THEN plain END, NULL);
        PERFORM oarlock.check_guard(spec, run, plain, decides);
        args := args || jsonb_build_object('decides', decides);
    END IF;
    IF verb = 'retry' AND NOT oarlock.operates() THEN
        PERFORM oarlock.check_version(r.dag_id, r.version);
    END IF;
    IF octet_length(args::text) > 1048576 OR octet_length(item) > 200 THEN
        RAISE EXCEPTION 'outputs have at most 1048576 bytes, an item 200' USING ERRCODE = 'OA012', HINT = 'store the data elsewhere and pass a reference';
    END IF;
    answer := oarlock.decide(r, spec, step, item, verb, args, by);
    IF verb IN ('approve', 'reject') AND answer[1] = 'refused' THEN
        answer[3] := coalesce((
            SELECT format('decided already: %s by %s', CASE c.verb WHEN 'approve' THEN 'approved' ELSE 'rejected' END, c.by) FROM oarlock.controls c
             WHERE c.run_id = run AND c.step = step AND c.item IS NOT DISTINCT FROM nullif(item, '') AND c.verb IN ('approve', 'reject') AND c.outcome = 'applied'
             ORDER BY c.control_id DESC LIMIT 1), answer[3]);
    END IF;
    -- bounded, because the next driver of the run reads all of them at once; a cancel of the run always finds room
    IF answer[1] IS NULL AND (SELECT count(*) >= CASE WHEN verb = 'cancel' AND step IS NULL THEN 2000 ELSE 1000 END
                               OR verb <> 'cancel' AND coalesce(sum(octet_length(c.args::text)), 0) + octet_length(args::text) > 16777216
                             FROM oarlock.controls c WHERE c.run_id = run AND c.decided_at IS NULL AND c.verb <> 'child_ended') THEN
        RAISE EXCEPTION 'run % has too many controls that are not decided yet', run USING ERRCODE = 'OA012', HINT = 'wait until its driver has decided them, or cancel the run';
    END IF;
    IF verb = 'retry' AND r.finished_at IS NOT NULL THEN -- without a generation, the retry is of a run under way
        args := args || jsonb_build_object('generation', r.generation + CASE WHEN answer[1] IS NULL THEN 1 ELSE 0 END);
    END IF;
    INSERT INTO oarlock.controls (run_id, step, item, verb, args, by, decided_at, outcome, state, message)
    VALUES (run, step, nullif(item, ''), verb, args, by, CASE WHEN answer[1] IS NOT NULL THEN clock_timestamp() END, answer[1], answer[2], answer[3])
    RETURNING * INTO made;
    made.state := coalesce(made.state, CASE WHEN r.claim_id IS NULL THEN 'queued' ELSE r.state END);
    RETURN oarlock.answer_of(made);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.need_step(verb text, step text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF coalesce(step, '') = '' THEN
        RAISE EXCEPTION '% needs a step', verb USING ERRCODE = 'OA013', HINT = format('SELECT * FROM oarlock.%s(run, step)', verb);
    END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.cancel(run bigint, step text DEFAULT NULL, item text DEFAULT NULL, now bool DEFAULT false) RETURNS oarlock.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN oarlock.request_control(run, step, item, 'cancel', jsonb_build_object('now', coalesce(now, false)));
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.cancel IS $$Cancels a run, or one step of a run together with the steps that depend on the step and have not started. For a whole run, `outcome` is one of:

- `applied`: the run is canceled now. A cancel is applied at once if the run has not started, or has not started since its last retry. A cancel is also applied at once if no worker holds the run, no handler has to run and no child run is open.
- `accepted`: the run **will** end as canceled. The worker sends a kill signal to the running tasks of the run, and afterwards runs the handlers `abort` and `exit`. With `now => true`, or after a second cancel of the run, the worker skips the handlers `abort` and `exit`. If no worker holds the run, `message` says why the run needs a worker.
- `refused`: the run has ended already. `state` is the state in which the run ended.

For a step, the worker that drives the run decides about the cancel, or the next worker that takes the run. Until then, `outcome` is null: call `oarlock.control_status` later to get the outcome. If the run has ended already, `outcome` is `refused` at once.

```sql
SELECT outcome, state FROM oarlock.cancel(41);
```

```sql
SELECT id FROM oarlock.cancel(41, 'load');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.pause(run bigint, step text DEFAULT NULL, item text DEFAULT NULL) RETURNS oarlock.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN oarlock.request_control(run, step, item, 'pause', '{}');
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.pause IS $$Pauses a run, or one step of a run. In a paused run no new task starts, and running tasks finish. If you pause a single step that is running, the worker stops its task. After the resume of the step, the worker starts the task again as the next attempt.

The worker that drives the run decides about the pause, or the next worker that takes the run. Until then, `outcome` is null: call `oarlock.control_status` later to get the outcome. If the run has ended already, `outcome` is `refused` at once.

```sql
SELECT id FROM oarlock.pause(41);
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.resume(run bigint, step text DEFAULT NULL, item text DEFAULT NULL) RETURNS oarlock.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN oarlock.request_control(run, step, item, 'resume', '{}');
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.resume IS $$Resumes a paused run, or one paused step of a run.

```sql
SELECT id FROM oarlock.resume(41);
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.retry(run bigint, mode text DEFAULT 'failed', step text DEFAULT NULL, item text DEFAULT NULL) RETURNS oarlock.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF mode IS NULL OR mode NOT IN ('failed', 'from', 'step', 'all') THEN
        RAISE EXCEPTION 'mode must be failed, from, step or all, not %', left(mode, 100) USING ERRCODE = 'OA013', HINT = 'failed repeats what failed and what depends on it';
    ELSIF mode IN ('from', 'step') THEN
        PERFORM oarlock.need_step('retry', step);
    ELSIF step IS NOT NULL THEN
        RAISE EXCEPTION 'mode % takes no step', mode USING ERRCODE = 'OA013', HINT = 'from repeats a step and all that depends on it, step repeats it alone';
    END IF;
    RETURN oarlock.request_control(run, step, item, 'retry', jsonb_build_object('mode', mode));
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.retry IS $$Repeats steps of a run.

If the run has ended, the retry opens a new generation of the run. The run is queued again with the same version and params.

The argument `mode` says which steps run again:

- `failed`: steps that failed or were canceled, and the steps that depend on them
- `from`: the step that you name, and all steps that depend on it
- `step`: only the step that you name; while the run is under way, also steps behind it, see below
- `all`: all steps

A `foreach` step runs all its items again, those too that succeeded: pass `item` to repeat one item. The retry is refused if no step would run again. After a refused retry, the run keeps its state, times and generation.

If the run has not ended, name a step with the mode `from` or `step`. The generation stays. The worker that drives the run decides about the retry, or the next worker that takes the run: until then, `outcome` is null. Mode `step` repeats a step that failed, is upstream_failed or was canceled, together with the steps behind it that could not start because of it. Other steps go on. A step that a mark or a cancel named stays as it is, unless the retry names it. Mode `from` also repeats a step that succeeded or was skipped, and all steps that depend on it; it is refused while one of them is under way. A retry is also refused while the step itself is under way, while a step before it keeps it from starting, and when the run is ending: a handler has begun, the run was canceled or timed out, or `fail_fast` ended the run.

```sql
SELECT id, state FROM oarlock.retry(40);
```

```sql
SELECT id, state FROM oarlock.retry(40, 'from', 'load');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.approve(run bigint, step text, item text DEFAULT NULL, outputs jsonb DEFAULT '{}') RETURNS oarlock.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM oarlock.need_step('approve', step);
    IF jsonb_typeof(coalesce(outputs, '{}')) <> 'object' THEN
        RAISE EXCEPTION 'outputs must be an object, not %', jsonb_typeof(outputs) USING ERRCODE = 'OA013', HINT = 'like {"amount": "7"}';
    END IF;
    RETURN oarlock.request_control(run, step, item, 'approve', jsonb_build_object('outputs', coalesce(outputs, '{}')));
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.approve IS $$Approves a step that waits for approval. `outputs` has the values for the inputs of the approval, by name. `outputs` must have a value for each required input. A name that is no input of the approval is refused, except `comment`.

`oarlock.approve` checks the values by the types and limits that the step declares, as `oarlock.enqueue` checks params (OA013). A text such as `"true"` or `"3"` becomes a boolean or a number if the input has that type. An input that you leave out gets its default. A worker checks a `pattern`, and refuses the request if a value does not match.

If the step names `approvers`, only the users and the members of the roles in `approvers` may approve the step, also in runs of other users. If the step names no `approvers`, all users that may control the run may approve the step, and all members of `oarlock_approve`.

```sql
SELECT id FROM oarlock.approve(41, 'confirm', outputs => '{"comment": "looks right"}');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.reject(run bigint, step text, item text DEFAULT NULL, reason text DEFAULT '') RETURNS oarlock.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM oarlock.need_step('reject', step);
    RETURN oarlock.request_control(run, step, item, 'reject', jsonb_build_object('reason', left(coalesce(reason, ''), 10000)));
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.reject IS $$Rejects a step that waits for approval. A rejected step fails with the failure kind `rejected`. A user may reject a step if the user may approve the step with `oarlock.approve`.

```sql
SELECT id FROM oarlock.reject(41, 'confirm', reason => 'wrong day');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.mark(run bigint, step text, "as" text, item text DEFAULT NULL, outputs jsonb DEFAULT '{}') RETURNS oarlock.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM oarlock.need_step('mark', step);
    IF "as" IS NULL OR "as" NOT IN ('succeeded', 'failed', 'skipped') THEN
        RAISE EXCEPTION 'a step is marked succeeded, failed or skipped, not %', left("as", 100) USING ERRCODE = 'OA013', HINT = 'SELECT * FROM oarlock.mark(run, step, ''succeeded'')';
    END IF;
    IF jsonb_typeof(coalesce(outputs, '{}')) <> 'object' THEN
        RAISE EXCEPTION 'outputs must be an object, not %', jsonb_typeof(outputs) USING ERRCODE = 'OA013', HINT = 'like {"rows": 7}';
    END IF;
    RETURN oarlock.request_control(run, step, item, 'mark', jsonb_build_object('as', "as", 'outputs', coalesce(outputs, '{}')));
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.mark IS $$Gives a step a state by hand: `"as"` is succeeded, failed or skipped. The values in `outputs` become the outputs of the step. If a step that you mark as succeeded declares outputs, the worker checks them: `outputs` must have all of them that are not optional, and no others. A text such as `"7"` becomes a number if the output has that type, and a text that is valid JSON becomes that value if the output has the type `json`. If the step is running, the worker first kills its task. While the run is under way, you can also mark a step that failed, is upstream_failed or was canceled as succeeded or skipped: then the steps behind it go on that could not start because of it. You cannot mark a step that succeeded or was skipped. If you mark an approval as succeeded, pass its inputs in `outputs`, as with `oarlock.approve`.

If an approval names `approvers`, only these approvers and members of `oarlock_admin` and `oarlock_worker` may mark the approval. Until an approval with `approvers` is given, only the users that may mark the approval may mark a step that depends on the approval. All other users get the error OA008.

```sql
SELECT id FROM oarlock.mark(41, 'load', 'succeeded', outputs => '{"rows": 7}');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.control_status(control bigint) RETURNS SETOF oarlock.answer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT (a).* FROM (SELECT oarlock.answer_of(c) AS a FROM oarlock.controls c
      JOIN oarlock.runs r USING (run_id)
     WHERE c.control_id = control AND (oarlock.is_mine(c.by) OR oarlock.sees_run_of(r.submitted_by)) OFFSET 0) answered;
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.control_status IS $$Returns the result of a control. `outcome` is `applied`, `accepted` or `refused`. If `outcome` is `refused`, `message` says what you can do instead. `outcome` is null until the worker that drives the run has decided, or the next worker that takes the run. The function returns no row if the control does not exist, or if you have no right to see the control.

```sql
SELECT outcome, state, message FROM oarlock.control_status(7);
```$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION oarlock.control_status(bigint);
DROP FUNCTION oarlock.mark(bigint, text, text, text, jsonb);
DROP FUNCTION oarlock.reject(bigint, text, text, text);
DROP FUNCTION oarlock.approve(bigint, text, text, jsonb);
DROP FUNCTION oarlock.retry(bigint, text, text, text);
DROP FUNCTION oarlock.resume(bigint, text, text);
DROP FUNCTION oarlock.pause(bigint, text, text);
DROP FUNCTION oarlock.cancel(bigint, text, text, bool);
DROP FUNCTION oarlock.need_step(text, text);
DROP FUNCTION oarlock.request_control(bigint, text, text, text, jsonb, text);
DROP FUNCTION oarlock.decide(oarlock.runs, jsonb, text, text, text, jsonb, text);
DROP FUNCTION oarlock.is_canceling(oarlock.runs);
DROP FUNCTION oarlock.reopen(oarlock.runs);
DROP FUNCTION oarlock.why_no_retry(bigint, jsonb, text, text, text);
DROP FUNCTION oarlock.has_unfinished(bigint, jsonb);
DROP FUNCTION oarlock.cancel_unheld(oarlock.runs, bool, text);
DROP FUNCTION oarlock.cancel_tasks(oarlock.runs, text, timestamptz);
DROP FUNCTION oarlock.cancel_needs(oarlock.runs, bool);
DROP FUNCTION oarlock.cancel_queued(oarlock.runs, text);
DROP FUNCTION oarlock.refuse_open(bigint, text, text);
DROP FUNCTION oarlock.tell_parent(oarlock.runs, text, text);
DROP FUNCTION oarlock.rouse(oarlock.runs);
DROP FUNCTION oarlock.lock_run(bigint, bool);
DROP FUNCTION oarlock.read_inputs(text, bigint, text, text, jsonb, oarlock.approvals_open, jsonb);
DROP FUNCTION oarlock.check_version(bigint, int);
DROP FUNCTION oarlock.check_guard(jsonb, bigint, text, text[]);
DROP FUNCTION oarlock.guard_of(jsonb, bigint, text, text[]);
DROP FUNCTION oarlock.decides_of(jsonb);
DROP FUNCTION oarlock.guards_of(jsonb);
DROP FUNCTION oarlock.steps_behind(jsonb, text);
DROP FUNCTION oarlock.edges_of(jsonb);
DROP FUNCTION oarlock.deciders(text, text, jsonb, oarlock.approvals_open);
DROP FUNCTION oarlock.body_of(bigint, jsonb, text, text);
DROP FUNCTION oarlock.replaced_as(oarlock.tasks);
DROP FUNCTION oarlock.grew_in(oarlock.tasks, jsonb);
DROP FUNCTION oarlock.waiting_approval(bigint, jsonb, text, text);
DROP FUNCTION oarlock.is_among(text[]);
DROP FUNCTION oarlock.approvers_of(jsonb);
DROP FUNCTION oarlock.bodies_of(text, jsonb);
DROP FUNCTION oarlock.replacing(jsonb, jsonb);
DROP FUNCTION oarlock.answer_of(oarlock.controls);
DROP TYPE oarlock.answer;
DROP FUNCTION oarlock.steps_of(jsonb);
