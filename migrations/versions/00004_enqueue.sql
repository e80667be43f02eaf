-- +goose Up

-- Errors ----------------------------------------------------------------------------------------------------------

CREATE VIEW oarlock.error_codes (code, means, cause, cure) AS VALUES
    ('OA001', 'unknown dag', 'No DAG of this name is registered, or the DAG has no such version.', 'Register the DAG with `oarlock dag apply FILE`. Names of DAGs are case-sensitive.'),
    ('OA002', 'out of service', 'The DAG was removed with `oarlock dag rm`, or the version of the DAG was retired with `oarlock dag retire`.', 'Register the DAG again, enqueue another DAG, or leave the argument `version` out.'),
    ('OA003', 'bad params', 'A param is missing, unknown, of the wrong type, or outside the limits that the DAG sets.', 'The message names the param and the valid values; `oarlock dag show DAG` lists all params.'),
    ('OA004', 'run_key reused', 'The same submitter used this run_key before, for another DAG or with other params or overrides.', 'Use a new run_key for each new request. Repeat a request without changes.'),
    ('OA005', 'override not allowed', 'The DAG does not let submitters choose this queue, priority, selector or precomputed result.', 'Leave the argument out, or add `allow:` to the DAG (for a precomputed result, add `precomputable: true` to the step).'),
    ('OA006', 'queue full', 'As many runs wait in the queue as its `max_queued` allows.', 'Try again later, start more workers, or let an administrator raise the limit with `oarlock queues set`.'),
    ('OA007', 'unknown run', 'The run does not exist, the run has no such step, or the run is not yours.', 'Look for the number of the run in `oarlock.inbox`, or with `oarlock list`.'),
    ('OA008', 'not an approver', 'The approval names approvers, and you are no approver. Or your request could start a step that depends on the approval.', 'Ask an approver that the message names.'),
    ('OA009', 'not supported', 'The DAG uses something that this installation cannot execute.', 'Remove the part that the message names from the DAG, or upgrade Oarlock.'),
    ('OA010', 'finished', 'The request would change a run or task that has finished.', 'To open a new generation of the run, retry the run with `oarlock.retry(run)`.'),
    ('OA011', 'stale writer', 'A worker tried to write a run for an earlier drive.', 'The database wrote nothing. Report this error to the developers, because no worker should cause it.'),
    ('OA012', 'too large', 'Params, labels, a key, an array or the nesting of JSON exceed the limit that the message names.', 'Store the data in another place, and pass a reference to the data.'),
    ('OA013', 'invalid argument', 'An argument has an invalid value.', 'The message says which values are valid.'),
    ('OA014', 'not finished', 'You asked for a new run in place of a run that has not ended.', 'Wait until the run has ended, or cancel the run with `oarlock.cancel(run)`.'),
    ('OA015', 'too many lanes', 'Runs have too many combinations of queue, priority, selector and needs: submitters of one DAG may choose 250, and a queue may have 1,000.', 'Use fewer combinations, or combinations that exist already. `oarlock prune` frees the combinations of which all runs have ended.'),
    ('OA016', 'unknown schedule', 'The DAG has no schedule of this name, or the schedule is not yours.', 'Look for the schedule in `SELECT * FROM oarlock.schedule_list()`.');
-- +goose StatementBegin
COMMENT ON VIEW oarlock.error_codes IS $$Lists the errors that functions of Oarlock raise. The code of each error is an SQLSTATE of class OA.

```sql
SELECT cause, cure FROM oarlock.error_codes WHERE code = 'OA004';
```$$;
-- +goose StatementEnd

-- The login that asks --------------------------------------------------------------------------------------------------------

-- Returns whether the login has one of these roles, or owns the schema. The login is the session_user: a SECURITY DEFINER
-- function or SET ROLE changes current_user only. Roles are looked up by name, because an installation may do without them; then
-- only the owner of the schema operates.
CREATE FUNCTION oarlock.is_one_of(VARIADIC roles text[]) RETURNS bool
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN (SELECT pg_has_role(session_user, n.nspowner, 'MEMBER') FROM pg_namespace n WHERE n.nspname = 'oarlock')
    OR EXISTS (SELECT FROM unnest(roles) r WHERE pg_has_role(session_user, to_regrole(r)::oid, 'MEMBER'));

-- Returns the person on behalf of whom the login asks; null: none. A web server signs people in by itself, and asks for all of
-- them with one login. It names the person in oarlock.actor, a setting of its transaction. Any user can set that, so it counts
-- only if the login is a member of oarlock_web. The name is recorded and decides nothing: owners of runs and rights go by the
-- login.
CREATE FUNCTION oarlock.actor() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN current_setting('oarlock.actor', true) <> '' AND oarlock.is_one_of('oarlock_web') THEN
    nullif(btrim(regexp_replace(left(current_setting('oarlock.actor', true), 200), '[\u0001-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]', ' ', 'g')), '') END;

-- Returns the login, and the person if there is one, in the form in which requests are recorded.
CREATE FUNCTION oarlock.who() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN coalesce(oarlock.actor() || ' via ' || session_user, session_user);
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.who IS $$Returns the name under which Oarlock records your requests: your login, or a person and your login.

If your login is a member of `oarlock_web` and sets `oarlock.actor` in its transaction, the name is `NAME via LOGIN`. For a login without the role `oarlock_web`, the setting `oarlock.actor` has no effect. The setting `oarlock.actor` gives no rights: your rights and the owner of a run depend on the login only.

```sql
SELECT set_config('oarlock.actor', 'ana@example.org', true), oarlock.who();
```$$;
-- +goose StatementEnd

-- Returns whether a recorded name is that of the session user, with or without a person in front.
CREATE FUNCTION oarlock.is_mine(by text) RETURNS bool
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN by = session_user OR right(by, length(session_user::text) + 5) = ' via ' || session_user;

-- The person on behalf of whom a login submitted a run; null: no person.
ALTER TABLE oarlock.runs ADD COLUMN actor text;
ALTER TABLE oarlock.runs ALTER COLUMN actor SET DEFAULT CASE WHEN current_setting('oarlock.actor', true) <> '' THEN oarlock.actor() END;

-- Returns whether another role has one of these roles, or owns the schema; false if no role has that name. It is plpgsql, because
-- a single expression would be planned anew at each call.
-- +goose StatementBegin
CREATE FUNCTION oarlock.role_is_one_of(name text, VARIADIC roles text[]) RETURNS bool
LANGUAGE plpgsql STABLE AS $$
DECLARE
    role oid := to_regrole(quote_ident(name));
BEGIN
    RETURN EXISTS (SELECT FROM unnest(roles) r WHERE pg_has_role(role, to_regrole(r)::oid, 'MEMBER'))
        OR EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'oarlock' AND pg_has_role(role, n.nspowner, 'MEMBER'));
END $$;
-- +goose StatementEnd

CREATE FUNCTION oarlock.operates() RETURNS bool
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN oarlock.is_one_of('oarlock_admin', 'oarlock_worker');
COMMENT ON FUNCTION oarlock.operates() IS 'Internal: whether the session user may control every run, not only its own.';

CREATE FUNCTION oarlock.sees_all() RETURNS bool
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN oarlock.is_one_of('oarlock_admin', 'oarlock_worker', 'oarlock_read');
COMMENT ON FUNCTION oarlock.sees_all() IS 'Internal: whether the session user sees every run, not only its own.';

-- Returns whether the session user sees all of a run that this login submitted. Lists call sees_all once for all of their rows
-- instead.
CREATE FUNCTION oarlock.sees_run_of(submitted_by text) RETURNS bool
LANGUAGE sql STABLE
RETURN submitted_by = session_user OR oarlock.sees_all();

-- Checks ----------------------------------------------------------------------------------------------------------

-- Raises OA012 for JSON that is nested deeper than programs read it: encoding/json of Go gives up at 10,000 levels. One such
-- value would keep all readers of a list of runs or schedules from the whole list. Argument `what` begins the message.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_depth(what text, given jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF given @? 'strict $.**{500} ? (@.type() == "array" || @.type() == "object")' THEN
        RAISE EXCEPTION '%: lists and objects are nested more than 500 deep', what
            USING ERRCODE = 'OA012', HINT = 'flatten it, or pass it as a text';
    END IF;
END $$;
-- +goose StatementEnd

-- Raises OA001 if no DAG of this name was found, and OA013 if the name is missing.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_dag(is_there bool, dag text, version int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF is_there THEN
        RETURN;
    ELSIF coalesce(dag, '') = '' THEN
        RAISE EXCEPTION 'the name of the dag is missing' USING ERRCODE = 'OA013', HINT = 'pass the name of a registered DAG as dag';
    END IF;
    RAISE EXCEPTION 'there is no dag %', concat(left(dag, 100), ' in version ' || version)
        USING ERRCODE = 'OA001', HINT = 'check the name, which is case-sensitive; an administrator registers a DAG: oarlock dag apply FILE';
END $$;
-- +goose StatementEnd

-- Returns how many rows a caller wants, or raises an error.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_rows(rows int, usual int, name text DEFAULT 'rows') RETURNS int
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF rows < 0 THEN
        RAISE EXCEPTION '% is %, and must not be negative', name, rows USING ERRCODE = 'OA013', HINT = format('leave it out for %s', usual);
    END IF;
    RETURN coalesce(rows, usual);
END $$;
-- +goose StatementEnd

-- Returns whether a moment is one of the years that schedules know. A later one has no form in RFC 3339, in which programs
-- read and write times, nor has one before the year 1. The planner inlines it.
CREATE FUNCTION oarlock.is_in_known_years(at timestamptz) RETURNS bool
LANGUAGE sql IMMUTABLE
RETURN at >= timestamptz '0020-01-01 00:00+00' AND at < timestamptz '9900-01-01 00:00+00';

-- Returns the reason why the value of a param breaks its definition in the DAG file, or null. Patterns are left to the driver,
-- which has other regular expressions than Postgres. Texts count as numbers and booleans if they read as such.
-- +goose StatementBegin
CREATE FUNCTION oarlock.param_problem(def jsonb, given jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    type text := def ->> 'type';
    kind text := jsonb_typeof(given);
    word text := given #>> '{}';
    n    numeric;
BEGIN
    IF type = 'json' THEN
        NULL;
    ELSIF type = 'string' THEN
        IF kind <> 'string' THEN
            RETURN 'must be a text';
        END IF;
        IF char_length(word) < (def ->> 'min_length')::int THEN
            RETURN format('must have %s characters or more, not %s', def ->> 'min_length', char_length(word));
        END IF;
        IF char_length(word) > (def ->> 'max_length')::int THEN
            RETURN format('must have %s characters or less, not %s', def ->> 'max_length', char_length(word));
        END IF;
    ELSIF type = 'boolean' THEN
        IF NOT (kind = 'boolean' OR kind = 'string' AND word IN ('true', 'false')) THEN
            RETURN 'must be true or false';
        END IF;
        given := to_jsonb(word::bool);
    ELSE
        -- the bound on the length keeps casts from overflowing
        IF kind NOT IN ('number', 'string') OR length(word) > 400
           OR word !~ (CASE type WHEN 'integer' THEN '^[+-]?[0-9]{1,19}$' ELSE '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$' END) THEN
            RETURN CASE type WHEN 'integer' THEN 'must be a whole number' ELSE 'must be a number' END;
        END IF;
        n := word::numeric;
        IF type = 'integer' AND n NOT BETWEEN -9223372036854775808 AND 9223372036854775807 OR abs(n) > 1.7e308 THEN
            RETURN 'is too large a number';
        END IF;
        IF n < (def ->> 'minimum')::numeric THEN
            RETURN format('must be %s or more', def ->> 'minimum');
        END IF;
        IF n > (def ->> 'maximum')::numeric THEN
            RETURN format('must be %s or less', def ->> 'maximum');
        END IF;
        given := to_jsonb(n);
    END IF;
    IF def ? 'enum' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(def -> 'enum') e
         WHERE e = given OR type NOT IN ('string', 'json') AND e #>> '{}' = given #>> '{}') THEN
        RETURN format('must be one of %s', left(def ->> 'enum', 200));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Raises OA003 for the first param that breaks its definition. It loops over positions and runs no query, because it is part of
-- every insert. Argument `what` names the row in the message, if there are several.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_params(defs jsonb, given jsonb, what text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    def     jsonb;
    name    text;
    value   jsonb;
    problem text;
    rest    jsonb := given;
BEGIN
    IF jsonb_typeof(given) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION '%params must be an object, not %', what, coalesce(jsonb_typeof(given), 'null')
            USING ERRCODE = 'OA003', HINT = 'like {"day": "2026-11-20"}';
    END IF;
    -- a compressed value can be 250 times as large as its stored form
    IF pg_column_size(given) > 4000 AND octet_length(given::text) > 1048576 THEN
        RAISE EXCEPTION '%params are % bytes, at most 1048576', what, octet_length(given::text)
            USING ERRCODE = 'OA012', HINT = 'store the data elsewhere and pass a reference';
    END IF;
    FOR i IN 0 .. jsonb_array_length(defs) - 1 LOOP
        def := defs -> i;
        name := def ->> 'name';
        value := given -> name;
        IF value IS NULL OR value = 'null' THEN
            problem := CASE WHEN def -> 'required' = 'true' AND coalesce(def -> 'default', 'null') = 'null' THEN 'is required' END;
        ELSE
            problem := oarlock.param_problem(def, value);
            IF def ->> 'type' = 'json' THEN
                PERFORM oarlock.check_depth(format('%sparam "%s"', what, name), value);
            END IF;
        END IF;
        IF problem IS NOT NULL THEN
            RAISE EXCEPTION '%param "%": %', what, name, problem
                USING ERRCODE = 'OA003', DETAIL = 'Given: ' || coalesce(left(value::text, 200), 'nothing'),
                      HINT = coalesce(nullif(def ->> 'description', ''), 'the DAG wants it of type ' || (def ->> 'type'));
        END IF;
        rest := rest - name;
    END LOOP;
    IF rest <> '{}' THEN
        RAISE EXCEPTION '%param "%": unknown', what, (SELECT min(k) FROM jsonb_object_keys(rest) k)
            USING ERRCODE = 'OA003',
                  HINT = coalesce('known: ' || (SELECT string_agg(d ->> 'name', ', ') FROM jsonb_array_elements(defs) d), 'the DAG takes no params');
    END IF;
END $$;
-- +goose StatementEnd

-- Returns the definitions as a jsonpath: it is true of most params that check_params accepts, and of no others. Checking by it
-- takes a tenth of the time, which counts for inserts in bulk. Texts for numbers and bounds on length are left to check_params.
CREATE FUNCTION oarlock.params_path(defs jsonb) RETURNS jsonpath
LANGUAGE sql IMMUTABLE
RETURN (
    SELECT concat_ws(' && ', '1 == 1', string_agg(format('(%s)', concat_ws(' || ', p.absent, p.fine)), ' && '))::jsonpath
      FROM jsonb_array_elements(defs) d,
           LATERAL (SELECT '$.' || (d -> 'name')::text AS path) x,
           LATERAL (SELECT CASE WHEN d -> 'required' = 'true' AND coalesce(d -> 'default', 'null') = 'null' THEN NULL
                                ELSE format('!exists(%s) || %s == null', x.path, x.path) END AS absent,
                           CASE WHEN d ->> 'type' = 'json' AND NOT d ? 'enum' THEN
                                     format('exists(%1$s) && !(%1$s == null) && !exists(%1$s.**{500})', x.path)
                                WHEN d ->> 'type' = 'boolean' AND NOT d ? 'enum' THEN format('%s.type() == "boolean"', x.path)
                                WHEN d ->> 'type' = 'string' AND NOT d ?| '{min_length,max_length}' THEN
                                     format('%s.type() == "string"', x.path)
                                     || coalesce((SELECT ' && (' || string_agg(format('%s == %s', x.path, e), ' || ') || ')'
                                                    FROM jsonb_array_elements(d -> 'enum') e), '')
                                WHEN d ->> 'type' IN ('integer', 'number') AND NOT d ? 'enum' THEN
                                     concat_ws(' && ', format('%s.type() == "number"', x.path),
                                               format('%s >= %s', x.path, coalesce(d -> 'minimum', '-9e15')),
                                               format('%s <= %s', x.path, coalesce(d -> 'maximum', '9e15')),
                                               CASE d ->> 'type' WHEN 'integer' THEN format('%s.floor() == %s', x.path, x.path) END)
                                ELSE '1 == 0' END AS fine) p);

-- Raises an error unless labels, or a selector, are a small object of texts.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_labels(what text, given jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(given) <> 'object' OR EXISTS (SELECT FROM jsonb_each(given) e WHERE jsonb_typeof(e.value) <> 'string') THEN
        RAISE EXCEPTION '% must be an object of texts, not %', what, left(given::text, 100)
            USING ERRCODE = 'OA013', HINT = 'like {"team": "billing"}';
    END IF;
    IF octet_length(given::text) > 8192
       OR EXISTS (SELECT FROM jsonb_each_text(given) e WHERE octet_length(e.key) > 100 OR octet_length(e.value) > 500) THEN
        RAISE EXCEPTION '% are too large: 100 bytes a name, 500 bytes a value, 8192 bytes together', what
            USING ERRCODE = 'OA012', HINT = 'store the data elsewhere and pass a reference';
    END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.check_key(run_key text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(run_key) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'a run_key has 1 to 200 bytes, not %', octet_length(run_key) USING ERRCODE = 'OA012', HINT = 'use a hash in place of a longer key';
    END IF;
    IF starts_with(run_key, 'oarlock:') THEN
        RAISE EXCEPTION 'run_key "%": keys that begin with oarlock: are taken', run_key USING ERRCODE = 'OA013', HINT = 'begin the key with another word';
    END IF;
END $$;
-- +goose StatementEnd

-- Enqueue ---------------------------------------------------------------------------------------------------------

-- A request that needs the full check.
CREATE TYPE oarlock.request AS (
    dag text, params jsonb, run_key text, run_at timestamptz, priority int, queue text, labels jsonb, selector jsonb,
    logical_at timestamptz, traceparent text, precomputed jsonb, version int, trigger text, submitter text, operates bool,
    parent_run bigint, parent_step int, parent_item text, parent_alt int, root_id bigint, depth int,
    schedule_id bigint, schedule text, previous_at timestamptz
);

-- The version of a DAG that a request runs, and the lane of its runs.
CREATE TYPE oarlock.target AS (
    dag_id bigint, version int, lane_id int, params jsonb, param_names text[], params_ok jsonpath, params_whole bool,
    labels jsonb, queue_timeout interval, limits jsonb
);

-- Returns whether params pass by the jsonpath alone. A whole number written as 1.0 needs check_params. The function is STABLE like
-- pg_column_size, since otherwise the planner would not inline it.
CREATE FUNCTION oarlock.plainly_fine(params jsonb, names text[], ok jsonpath, whole bool) RETURNS bool
LANGUAGE sql STABLE
RETURN (pg_column_size(params) <= 4000 AND jsonb_typeof(params) = 'object' AND params @@ ok AND params - names = '{}'
        AND (NOT whole OR strpos(params::text, '.') = 0)) IS TRUE;

-- Finds a lane, or makes it, and locks it FOR KEY SHARE until the transaction ends, so that prune does not close it meanwhile. Each
-- open lane costs every claim something, so find_lane bounds how many are made for one DAG or queue. The bound of a DAG leaves room for
-- each of the 201 priorities. Bounds are soft, since lanes that other transactions make at the same time are not seen.
-- +goose StatementBegin
CREATE FUNCTION oarlock.find_lane(queue text, priority int, selector jsonb, needs text[], slots int, dag_id bigint, keyed bool, made_for bigint) RETURNS int
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    found_id int;
BEGIN
    SELECT l.lane_id INTO found_id FROM oarlock.lanes l
     WHERE l.queue = find_lane.queue AND l.priority = find_lane.priority AND l.selector = find_lane.selector
       AND l.needs = find_lane.needs AND l.slots = find_lane.slots AND l.dag_id = find_lane.dag_id AND l.keyed = find_lane.keyed AND l.closed IS NULL
     ORDER BY l.twin LIMIT 1;
    IF FOUND THEN
        PERFORM FROM oarlock.lanes l WHERE l.lane_id = found_id AND l.closed IS NULL FOR KEY SHARE SKIP LOCKED;
        IF FOUND THEN
            RETURN found_id;
        END IF; -- else prune is closing it
    ELSIF find_lane.made_for > 0 AND (SELECT count(*) FROM oarlock.lanes l WHERE l.made_for = find_lane.made_for AND l.dag_id = find_lane.dag_id AND l.twin = 0 AND l.closed IS NULL) >= 250 THEN
        RAISE EXCEPTION 'runs of this dag go to 250 other queues, priorities and selectors already: no more'
            USING ERRCODE = 'OA015', HINT = 'use fewer combinations, combinations that exist already, or another dag; oarlock prune frees those in which all runs are over';
    ELSIF find_lane.made_for = 0 AND (SELECT count(*) FROM oarlock.lanes l WHERE l.made_for = 0 AND l.queue = find_lane.queue AND l.twin = 0 AND l.closed IS NULL) >= 1000 THEN
        RAISE EXCEPTION 'queue % has 1000 kinds of runs, which differ in priority, selector or needs: no more', queue
            USING ERRCODE = 'OA015', HINT = 'use fewer priorities and selectors, or another queue; oarlock prune frees those in which all runs are over';
    END IF;
    RETURN oarlock.make_lane(queue, priority, selector, needs, slots, dag_id, keyed, made_for);
END $$;
-- +goose StatementEnd

-- Makes a lane, or opens it again. If another transaction is making the same lane, it waits 100 ms for that transaction to end. If that transaction
-- stays open, it makes a twin of the lane, which serves as well: no session waits until an application ends its transaction.
-- +goose StatementBegin
CREATE FUNCTION oarlock.make_lane(queue text, priority int, selector jsonb, needs text[], slots int, dag_id bigint, keyed bool, made_for bigint) RETURNS int
LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
#variable_conflict use_column
DECLARE
    id int;
BEGIN
    FOR nth IN 0 .. 100 LOOP
        BEGIN
            INSERT INTO oarlock.lanes (queue, priority, selector, needs, slots, dag_id, keyed, made_for, twin)
            VALUES (make_lane.queue, make_lane.priority, make_lane.selector, make_lane.needs, make_lane.slots, make_lane.dag_id, make_lane.keyed, make_lane.made_for, nth)
            ON CONFLICT DO NOTHING RETURNING lane_id INTO id;
            IF NOT FOUND THEN
                UPDATE oarlock.lanes l SET closed = NULL, made_for = make_lane.made_for
                 WHERE l.queue = make_lane.queue AND l.priority = make_lane.priority AND l.selector = make_lane.selector AND l.needs = make_lane.needs
                   AND l.slots = make_lane.slots AND l.dag_id = make_lane.dag_id AND l.keyed = make_lane.keyed AND l.twin = nth AND l.closed IS NOT NULL
                RETURNING l.lane_id INTO id;
            END IF;
            IF NOT FOUND THEN -- another transaction has made it or opened it meanwhile
                SELECT l.lane_id INTO id FROM oarlock.lanes l
                 WHERE l.queue = make_lane.queue AND l.priority = make_lane.priority AND l.selector = make_lane.selector AND l.needs = make_lane.needs
                   AND l.slots = make_lane.slots AND l.dag_id = make_lane.dag_id AND l.keyed = make_lane.keyed AND l.twin = nth AND l.closed IS NULL
                   FOR KEY SHARE;
            END IF;
            IF FOUND THEN
                RETURN id;
            END IF; -- else prune deleted or closed the lane after this call had seen it: the next turn makes a twin
        EXCEPTION WHEN lock_not_available THEN
            PERFORM set_config('lock_timeout', '2ms', true); -- the next ones get hardly any time
        END;
    END LOOP;
    RAISE EXCEPTION 'too many open transactions make the lane of this run' USING ERRCODE = '55P03', HINT = 'end them, then try again';
END $$;
-- +goose StatementEnd

-- Returns the lane for a run that was over and is to be queued again: its own, or the same if prune has closed its own. If prune is
-- looking at its own in a transaction that stays open, it is a twin of it: a retry holds its run, and must not wait. No bound
-- applies, because the run had its lane before.
-- +goose StatementBegin
CREATE FUNCTION oarlock.hold_lane(lane int) RETURNS int
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM oarlock.lanes l WHERE l.lane_id = lane AND l.closed IS NULL FOR KEY SHARE SKIP LOCKED;
    IF FOUND THEN
        RETURN lane;
    END IF;
    RETURN (SELECT oarlock.make_lane(l.queue, l.priority, l.selector, l.needs, l.slots, l.dag_id, l.keyed, l.made_for) FROM oarlock.lanes l WHERE l.lane_id = lane);
END $$;
-- +goose StatementEnd

-- Returns the lane of a run that asks for another queue, priority or selector than its DAG has: a lane of the DAG's own if `own`, a
-- keyed one if `keyed`. Operators may ask for any; other
-- users may as far as the DAG allows it, and for no higher priority than that of the DAG.
-- +goose StatementBegin
CREATE FUNCTION oarlock.override_lane(asked oarlock.request, of oarlock.dag_versions, own bool, keyed bool) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    denied text := CASE
        WHEN asked.operates THEN NULL
        WHEN asked.queue <> of.queue AND NOT of.allow_queue THEN format('queue %s', asked.queue)
        WHEN asked.priority > of.priority AND NOT of.allow_priority THEN format('priority %s', asked.priority)
        WHEN asked.selector <> of.selector AND NOT of.allow_selector THEN format('selector %s', left(asked.selector::text, 100))
    END;
BEGIN
    IF denied IS NOT NULL THEN
        RAISE EXCEPTION 'dag % does not allow %', asked.dag, denied
            USING ERRCODE = 'OA005', HINT = format('leave it out (the DAG has queue %s, priority %s, selector %s), or have the DAG say allow:', of.queue, of.priority, of.selector);
    END IF;
    IF asked.priority NOT BETWEEN -100 AND 100 THEN
        RAISE EXCEPTION 'priority % is not from -100 to 100', asked.priority USING ERRCODE = 'OA013', HINT = 'higher goes first';
    END IF;
    IF asked.queue IS NOT NULL AND NOT EXISTS (SELECT FROM oarlock.queues q WHERE q.name = asked.queue) THEN
        RAISE EXCEPTION 'there is no queue %', left(asked.queue, 100) USING ERRCODE = 'OA013', TABLE = 'queues', HINT = 'an administrator makes it: SELECT oarlock.set_queue(''name'')';
    END IF;
    IF asked.selector IS NOT NULL THEN
        PERFORM oarlock.check_labels('selector', asked.selector);
        IF octet_length(asked.selector::text) > 1024 THEN
            RAISE EXCEPTION 'a selector has at most 1024 bytes, not %', octet_length(asked.selector::text) USING ERRCODE = 'OA012', HINT = 'ask for fewer labels';
        END IF;
    END IF;
    RETURN oarlock.find_lane(coalesce(asked.queue, of.queue), coalesce(asked.priority, of.priority), coalesce(asked.selector, of.selector),
        of.needs, of.max_slots, CASE WHEN own THEN of.dag_id ELSE 0 END, keyed,
        CASE WHEN asked.operates AND asked.trigger NOT IN ('child', 'retry') THEN 0 ELSE of.dag_id END);
END $$;
-- +goose StatementEnd

-- Raises OA006 if a queue is full. It counts, so a limit of n costs each insert up to n index entries. The limit is soft, since
-- runs that other transactions insert at the same time are not seen.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_room(lane int, rows int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    full_queue text;
BEGIN
    SELECT q.name INTO full_queue
      FROM oarlock.lanes l JOIN oarlock.queues q ON q.name = l.queue
     WHERE l.lane_id = lane AND q.max_queued > 0 AND rows > q.max_queued -
           (SELECT count(*) FROM (SELECT FROM oarlock.lanes o JOIN oarlock.runs r ON r.lane_id = o.lane_id AND r.state = 'queued'
                                   WHERE o.queue = q.name AND o.closed IS NULL LIMIT q.max_queued) counted);
    IF FOUND THEN
        RAISE EXCEPTION 'queue % is full', full_queue
            USING ERRCODE = 'OA006', HINT = 'try again later, or have an administrator start workers or raise the limit: SELECT oarlock.set_queue(queue, max_queued => n)';
    END IF;
END $$;
-- +goose StatementEnd

-- Returns the version and the lane of a request.
-- +goose StatementBegin
CREATE FUNCTION oarlock.find_target(asked oarlock.request, rows int) RETURNS oarlock.target
LANGUAGE plpgsql AS $$
DECLARE
    dag    record;
    target oarlock.target;
BEGIN
    SELECT d.dag_id, d.removed_at, v.version, d.current_lane, v.params, v.param_names, v.params_ok, v.params_whole, v.labels,
           v.queue_timeout_ms, v.precomputable, q.max_queued, d.current_limits,
           d.max_active_runs > 0 OR d.paused_by IS NOT NULL OR d.current_limits IS NOT NULL OR d.current_pools <> '{}' AS own INTO dag
      FROM oarlock.dags d
      JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = coalesce(asked.version, d.current_version)
      JOIN oarlock.queues q ON q.name = v.queue
     WHERE d.name = asked.dag;
    PERFORM oarlock.check_dag(FOUND, asked.dag, asked.version);
    IF dag.removed_at IS NOT NULL THEN
        RAISE EXCEPTION 'dag % was removed', asked.dag USING ERRCODE = 'OA002', HINT = 'apply it again: oarlock dag apply FILE';
    END IF;
    target := ROW(dag.dag_id, dag.version, dag.current_lane, dag.params, dag.param_names, dag.params_ok, dag.params_whole, dag.labels,
                  CASE WHEN dag.queue_timeout_ms > 0 THEN dag.queue_timeout_ms * interval '1 millisecond' END, dag.current_limits)::oarlock.target;
    IF asked.queue IS NOT NULL OR asked.priority IS NOT NULL OR asked.selector IS NOT NULL
       OR asked.version IS NOT NULL THEN -- an older version may have a lane from before the DAG limited its runs
        target.lane_id := oarlock.override_lane(asked, v, dag.own, dag.current_limits IS NOT NULL) FROM oarlock.dag_versions v WHERE v.dag_id = dag.dag_id AND v.version = dag.version;
    END IF;
    IF asked.labels <> '{}' THEN
        PERFORM oarlock.check_labels('labels', asked.labels);
        target.labels := dag.labels || asked.labels;
    END IF;
    IF asked.precomputed IS NOT NULL THEN
        PERFORM oarlock.check_precomputed(asked.precomputed, dag.precomputable);
        PERFORM oarlock.check_guard(v.spec, NULL, k, oarlock.decides_of(v.spec)) FROM oarlock.dag_versions v, jsonb_object_keys(asked.precomputed) k
          WHERE v.dag_id = dag.dag_id AND v.version = dag.version;
    END IF;
    IF asked.version IS NOT NULL THEN
        PERFORM oarlock.check_version(dag.dag_id, dag.version);
    END IF;
    IF NOT (coalesce(oarlock.is_in_known_years(asked.run_at), true) AND coalesce(oarlock.is_in_known_years(asked.logical_at), true)) THEN
        RAISE EXCEPTION 'run_at and logical_at must be moments of the years 20 to 9899' USING ERRCODE = 'OA013', HINT = 'leave it out to start at once';
    END IF;
    IF octet_length(asked.traceparent) > 256 THEN
        RAISE EXCEPTION 'traceparent has at most 256 bytes' USING ERRCODE = 'OA012', HINT = 'pass the W3C header as it is';
    END IF;
    IF dag.max_queued > 0 OR asked.queue IS NOT NULL THEN
        PERFORM oarlock.check_room(target.lane_id, rows);
    END IF;
    RETURN target;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.check_precomputed(given jsonb, steps text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    denied text;
BEGIN
    IF jsonb_typeof(given) <> 'object' THEN
        RAISE EXCEPTION 'precomputed must be an object by step, not %', jsonb_typeof(given)
            USING ERRCODE = 'OA013', HINT = 'like {"extract": {"exit_code": 0, "outputs": {"rows": "7"}}}';
    END IF;
    SELECT k INTO denied FROM jsonb_object_keys(given) k WHERE k <> ALL (steps);
    IF FOUND THEN
        RAISE EXCEPTION 'the result of step % may not be handed in', left(denied, 100)
            USING ERRCODE = 'OA005', HINT = 'leave it out, or have the step say precomputable: true';
    END IF;
    IF octet_length(given::text) > 1048576 THEN
        RAISE EXCEPTION 'precomputed results are % bytes, at most 1048576', octet_length(given::text)
            USING ERRCODE = 'OA012', HINT = 'store the data elsewhere and hand in a reference';
    END IF;
    PERFORM oarlock.check_depth('precomputed', given);
END $$;
-- +goose StatementEnd

-- Returns whether a worker may serve a lane. The planner inlines it as long as it has no sub-select. The offers of the worker
-- are an argument for that reason, and the caller reads them by key: (SELECT o.offers FROM oarlock.worker_offers o WHERE
-- o.worker_id = w.worker_id). A join would begin with the offers of all workers. The + 0 hides the slots from an index, which
-- would fetch lanes one by one although the table has few pages.
CREATE FUNCTION oarlock.may_serve(w oarlock.workers, offers text[], l oarlock.lanes) RETURNS bool
LANGUAGE sql IMMUTABLE
RETURN ((w).queues = '{}' OR (l).queue = ANY ((w).queues)) AND (w).labels @> (l).selector AND (w).slots >= (l).slots + 0 AND offers @> (l).needs;
COMMENT ON FUNCTION oarlock.may_serve(oarlock.workers, text[], oarlock.lanes) IS 'Internal: whether a worker may serve a lane.';

-- Notifies workers that a lane has new runs. It picks at most as many workers as there are rows, of the workers that may serve the
-- lane, others each time, and names to each its share. A notification is a hint only. Hungry workers come first. With reach 0 only
-- they are notified: a worker passes on a hint that it has no room for. With reach 1 also workers that have a next task of lower
-- priority than the lane. If no worker is hungry, 16 of these are notified even of one run, because no row tells which worker has
-- the slot that ends next. With reach 2 also any other worker, because the run may need no slot. If no worker fits, there is no
-- NOTIFY. No run of these has its place before `at`: if the transaction stays open for long, workers look from there on again.
-- The search goes by the ids of workers, which are drawn by lot, from an id drawn by lot on and round. By their places in the table
-- it would favor the workers behind many rows of workers that are gone. It ends with the 32nd worker found, for more runs with one
-- worker for each, or with the last worker of the table. So an enqueue costs no more beside 1,000 workers, and the only worker that
-- serves a lane is always found. The settings keep the plan on the key: the planner expects few workers to fit, and would sort all.
-- The sort by chance remains, and makes the plan look so dear that Postgres would compile it: 0.2 s at each call.
-- +goose StatementBegin
CREATE FUNCTION oarlock.wake(lane int, rows bigint, reach int DEFAULT 1, at timestamptz DEFAULT statement_timestamp()) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    start uuid   := gen_random_uuid();
    most  bigint := rows;
    told  text[] := '{}'; -- the channels of the workers
BEGIN
    FOR kind IN 0..reach LOOP
        IF kind = 1 AND reach = 1 AND told = '{}' THEN
            most := greatest(rows, 16);
        END IF;
        told := told || ARRAY(
            SELECT found.channel
              FROM (SELECT w.channel
                      FROM (VALUES (start, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid), ('00000000-0000-0000-0000-000000000000', start)) part (since, until)
                     CROSS JOIN LATERAL (
                           SELECT w.channel
                             FROM oarlock.workers w
                             JOIN oarlock.lanes l ON l.lane_id = lane
                              AND oarlock.may_serve(w, (SELECT o.offers FROM oarlock.worker_offers o WHERE o.worker_id = w.worker_id), l)
                            WHERE w.worker_id >= part.since AND w.worker_id < part.until AND w.state = 'live'
                              AND CASE kind WHEN 0 THEN w.hungry > 0
                                            WHEN 1 THEN w.hungry = 0 AND w.least < l.priority
                                            ELSE w.hungry = 0 AND w.only_run IS NULL AND (w.least < l.priority) IS NOT TRUE END
                            ORDER BY w.worker_id LIMIT greatest(most, 32)) w
                     LIMIT greatest(most, 32)) found
             ORDER BY random() LIMIT most - cardinality(told));
        EXIT WHEN cardinality(told) >= most;
    END LOOP;
    PERFORM pg_notify(t.channel, concat_ws(':', 'lane', lane, ceil(rows / greatest(least(rows, cardinality(told)), 1)::float8), floor(extract(epoch FROM at) * 1000)))
       FROM unnest(told) t (channel);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.wake(int, bigint, int, timestamptz) IS 'Internal: sends `lane:N:ROWS:PLACE` to workers that have room.';

-- Returns a hash by which requests with one run_key count as the same: of DAG, params and lane. The time of the run, labels and
-- traces may differ. The function is STABLE like jsonb_build_array, since otherwise the planner would not inline it.
CREATE FUNCTION oarlock.request_hash(dag text, params jsonb, priority int, queue text, selector jsonb, logical_at timestamptz,
    precomputed jsonb, version int) RETURNS bytea
LANGUAGE sql STABLE
RETURN sha256(convert_to(jsonb_build_array(dag, params, priority, queue, selector, logical_at, precomputed, version)::text, 'UTF8'));

-- Takes a key for a run, or returns the run that has the key. If another open transaction takes the same key, it waits for that
-- transaction to end. The key comes before all other checks, so a request that was accepted once is answered with its run,
-- however the DAG has changed since.
-- +goose StatementBegin
CREATE FUNCTION oarlock.take_key(id bigint, submitter text, run_key text, hash bytea) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    held record;
BEGIN
    LOOP -- again only if the key is deleted between the two statements, with its run
        INSERT INTO oarlock.run_keys (submitter, run_key, run_id, request_hash) VALUES (submitter, run_key, id, hash) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN id;
        END IF;
        SELECT k.run_id, k.request_hash INTO held FROM oarlock.run_keys k WHERE k.submitter = submitter AND k.run_key = run_key;
        EXIT WHEN FOUND;
    END LOOP;
    IF held.request_hash <> hash THEN
        RAISE EXCEPTION 'run_key "%" belongs to run %, which was asked for with another dag, params or overrides', run_key, held.run_id
            USING ERRCODE = 'OA004', HINT = 'use a new key for each request, and repeat a request unchanged';
    END IF;
    RETURN held.run_id;
END $$;
-- +goose StatementEnd

-- Returns the place in its lane of a run that is due at a moment. Workers begin to look at a moment, so of thousands of runs at one
-- moment they would read all that are over. Runs of one moment are therefore spread over the tenth of a second after it, each
-- hundred thousand ids in their order. A run that is due at `now` has no later place than that, so that workers find it at once.
CREATE FUNCTION oarlock.place_of(id bigint, due timestamptz, now timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN CASE WHEN due > now THEN due + id % 100000 * interval '1 microsecond' ELSE least(due + id % 100000 * interval '1 microsecond', now) END;
COMMENT ON FUNCTION oarlock.place_of(bigint, timestamptz, timestamptz) IS 'Internal: the place of a run in its lane.';

-- Returns the key of a run for the limit of its DAG; see runs.limit_keys. A param that was not given has its default, and one without a
-- default, or a label that the run lacks, is empty. A number is one key however it is written: 7, 7.0 or "07". The key begins with the mark
-- of its definition, so that keys of a version with another definition are others. A run passes the limit if one of its ancestors counts
-- with the same key: it would wait for that ancestor, and the ancestor for it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.limit_keys(target oarlock.target, params jsonb, parent bigint) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    def   jsonb := target.limits -> 0;
    given jsonb := coalesce((SELECT jsonb_object_agg(d ->> 'name', d -> 'default') FROM jsonb_array_elements(target.params) d WHERE d ? 'default'), '{}')
                || jsonb_strip_nulls(params);
    key   text := coalesce((
        SELECT string_agg(CASE WHEN p.piece ? 'text' THEN p.piece ->> 'text'
                               WHEN p.piece ? 'label' THEN target.labels ->> (p.piece ->> 'label')
                               WHEN target.params @? format('$[*] ? (@.name == %s && (@.type == "integer" || @.type == "number"))', p.piece -> 'param')::jsonpath
                               THEN trim_scale((given ->> (p.piece ->> 'param'))::numeric)::text
                               ELSE given ->> (p.piece ->> 'param') END, '' ORDER BY p.n)
          FROM jsonb_array_elements(def -> 'key') WITH ORDINALITY p (piece, n)), '');
BEGIN
    IF octet_length(key) > 200 THEN
        RAISE EXCEPTION 'the key of concurrency has at most 200 bytes, not %', octet_length(key) USING ERRCODE = 'OA012', HINT = 'make it of shorter params or labels, or of a hash';
    END IF;
    key := (def ->> 'mark') || ':' || key;
    IF parent IS NOT NULL AND EXISTS (
       WITH RECURSIVE ancestor AS (
           SELECT r.parent_run, r.dag_id, r.limit_keys FROM oarlock.runs r WHERE r.run_id = parent
            UNION ALL
           SELECT r.parent_run, r.dag_id, r.limit_keys FROM ancestor a JOIN oarlock.runs r ON r.run_id = a.parent_run)
       SELECT FROM ancestor a WHERE a.dag_id = target.dag_id AND a.limit_keys[1] = key) THEN
        RETURN ARRAY[NULL::text];
    END IF;
    RETURN ARRAY[key];
END $$;
-- +goose StatementEnd

-- Inserts a run after the full check of its request, and returns its lane.
-- +goose StatementBegin
CREATE FUNCTION oarlock.insert_checked(id bigint, asked oarlock.request, started timestamptz) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    target oarlock.target := oarlock.find_target(asked, 1);
    due    timestamptz := greatest(asked.run_at, started);
BEGIN
    PERFORM oarlock.check_params(target.params, asked.params, '');
    INSERT INTO oarlock.runs (run_id, dag_id, version, lane_id, params, labels, precomputed, run_at, ready_at, logical_at, trigger,
                              parent_run, parent_step, parent_item, parent_alt, root_id, depth, submitted_by, run_key,
                              traceparent, queue_deadline, created_at, schedule_id, schedule, previous_at, limit_keys)
    OVERRIDING SYSTEM VALUE
    VALUES (id, target.dag_id, target.version, target.lane_id, asked.params, target.labels, asked.precomputed, due, oarlock.place_of(id, due, started),
            coalesce(asked.logical_at, asked.run_at, started), asked.trigger,
            asked.parent_run, asked.parent_step, asked.parent_item, asked.parent_alt, coalesce(asked.root_id, id), coalesce(asked.depth, 0),
            asked.submitter, asked.run_key, asked.traceparent, due + target.queue_timeout, started,
            asked.schedule_id, asked.schedule, asked.previous_at,
            CASE WHEN target.limits IS NOT NULL THEN oarlock.limit_keys(target, asked.params, asked.parent_run) END);
    RETURN target.lane_id;
END $$;
-- +goose StatementEnd

-- Inserts a run for a submitter, and returns its lane. A run_at in the past means now, so that no run overtakes others by it. The
-- usual request takes one statement, which finds the DAG, checks and inserts: each further statement, and each composite value,
-- costs about as much as an index of the table. A request that this statement does not match goes the long way, through
-- insert_checked, which accepts it after all or raises the error. The conditions of the statement must never be wider than the
-- checks there. Labels of 100 bytes together, for instance, contain none that is too long.
-- +goose StatementBegin
CREATE FUNCTION oarlock.insert_run(id bigint, dag text, params jsonb, run_key text, run_at timestamptz, priority int, queue text,
    labels jsonb, selector jsonb, logical_at timestamptz, traceparent text, precomputed jsonb, version int, trigger text,
    submitter text, schedule_id bigint DEFAULT NULL, schedule text DEFAULT NULL, previous_at timestamptz DEFAULT NULL) RETURNS int
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    started timestamptz := clock_timestamp();
    due     timestamptz := greatest(run_at, started);
    place   timestamptz := oarlock.place_of(id, due, started);
    logical timestamptz := coalesce(logical_at, run_at, started);
    lane    int;
BEGIN
    IF (priority, queue, selector, precomputed, version) IS NULL AND oarlock.is_in_known_years(coalesce(run_at, started)) AND oarlock.is_in_known_years(logical)
       AND (traceparent IS NULL OR octet_length(traceparent) <= 256) AND (labels = '{}' OR octet_length(labels::text) <= 100 AND labels @@ 'strict $.type() == "object" && !exists($.* ? (@.type() != "string"))') THEN
        INSERT INTO oarlock.runs AS r (run_id, dag_id, version, lane_id, params, labels, run_at, ready_at, logical_at, trigger, root_id,
                                       submitted_by, run_key, traceparent, queue_deadline, created_at, schedule_id, schedule, previous_at)
        OVERRIDING SYSTEM VALUE
        SELECT id, d.dag_id, d.current_version, d.current_lane, params, CASE labels WHEN '{}' THEN d.current_labels ELSE d.current_labels || labels END,
               due, place, logical, trigger, id, submitter, run_key, traceparent,
               due + d.current_timeout, started, schedule_id, schedule, previous_at
          FROM oarlock.dags d JOIN oarlock.queues q ON q.name = d.current_queue
         WHERE d.name = dag AND d.removed_at IS NULL AND q.max_queued = 0 AND d.current_limits IS NULL
           AND oarlock.plainly_fine(params, d.current_names, d.current_ok, d.current_whole)
        RETURNING r.lane_id INTO lane;
    END IF;
    IF lane IS NULL THEN
        lane := oarlock.insert_checked(id, ROW(dag, params, run_key, run_at, priority, queue, labels, selector, logical_at, traceparent,
            precomputed, version, trigger, submitter, schedule_id IS NOT NULL OR coalesce(priority::text, queue, selector::text) IS NOT NULL AND oarlock.operates(),
            NULL, NULL, NULL, NULL, NULL, NULL, schedule_id, schedule, previous_at)::oarlock.request, started);
    END IF;
    RETURN lane;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.enqueue(dag text, params jsonb DEFAULT '{}', run_key text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority int DEFAULT NULL, queue text DEFAULT NULL, labels jsonb DEFAULT '{}', selector jsonb DEFAULT NULL,
    logical_at timestamptz DEFAULT NULL, traceparent text DEFAULT NULL, precomputed jsonb DEFAULT NULL, version int DEFAULT NULL,
    trigger text DEFAULT 'sql') RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id     bigint := nextval('oarlock.runs_run_id_seq');
    given  jsonb := coalesce(params, '{}');
    holder bigint;
    lane   int;
BEGIN
    IF trigger NOT IN ('sql', 'manual') THEN
        RAISE EXCEPTION 'trigger must be sql or manual, not %', left(trigger, 100) USING ERRCODE = 'OA013', HINT = 'leave it out';
    END IF;
    IF run_key IS NOT NULL THEN
        PERFORM oarlock.check_key(run_key);
        holder := oarlock.take_key(id, session_user, run_key,
            oarlock.request_hash(dag, given, priority, queue, selector, logical_at, precomputed, version));
        IF holder <> id THEN
            RETURN holder;
        END IF;
    END IF;
    lane := oarlock.insert_run(id, dag, given, run_key, run_at, priority, queue, labels, selector, logical_at, traceparent,
        precomputed, version, coalesce(trigger, 'sql'), session_user);
    IF (run_at IS NULL OR run_at <= clock_timestamp()) AND EXISTS (
       SELECT FROM oarlock.workers w WHERE w.state = 'live'
          AND (w.hungry > 0 OR w.least < (SELECT l.priority FROM oarlock.lanes l WHERE l.lane_id = lane))) THEN
        PERFORM oarlock.wake(lane, 1); -- tested first, because a call of wake costs more than this test, which mostly fails
    END IF;
    RETURN id;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.enqueue IS $$Asks for a run of a registered DAG, and returns the number of the run. The run exists when your transaction commits. If your transaction rolls back, the run does not exist.

- `params`: values for the `params:` of the DAG. `oarlock.enqueue` checks types, required, enum, minimum, maximum and lengths. `oarlock.enqueue` does not check a `pattern`, because Postgres has other regular expressions. Nor does it check whether a value fits a `timeout` or a limit that the param gives. A worker checks both when it claims the run, and a run with a value that does not fit fails. The command `oarlock enqueue` checks both before it makes the run. The value of a `json` param has at most 500 levels of lists and objects.
- `run_key`: makes the call idempotent. If your login used the same `run_key` before with the same `dag`, `params`, `priority`, `queue`, `selector`, `logical_at`, `precomputed` and `version`, the call returns the run of the first call. If one of these arguments differs from the first call with the same `run_key`, the call fails with OA004. The database keeps a `run_key` as long as its run, and for at least 7 days.
- `run_at`: the run does not start before `run_at`. A `run_at` in the past means now. Runs with the same future `run_at` start in the order of their numbers, within a tenth of a second after `run_at`. The order of numbers begins again at each multiple of 100,000: run 200000 starts before run 199999.
- `logical_at`: the moment that the run is about, for example the day of a report. The default is `run_at`, or now if you give no `run_at`. `run_at` and `logical_at` must be in the years 20 to 9899.
- `priority`, `queue`, `selector`: replace the values of the DAG, if the DAG allows other values in `allow:`. A `priority` lower than the priority of the DAG is always allowed.
- `labels`: labels that the run gets in addition to the labels of the DAG.
- `traceparent`: a trace context that the worker passes to the tasks of the run.
- `precomputed`: results of steps, by the name of the step. The run does not execute a step that has a precomputed result. The DAG must allow a precomputed result of a step with `precomputable: true`.
- `version`: the version of the DAG that the run executes. The default is the current version. A retired version is refused (OA002). If an approval guards a step in the current version and does not guard the step in the version of the call, only operators may start the run (OA008).
- `trigger`: `sql` or `manual`. `oarlock status` shows the `trigger` as the origin of the run.

If another open transaction has called `oarlock.enqueue` with the same new `run_key`, your call waits until the other transaction ends:

- If the other transaction rolls back, your call makes the run.
- If the other transaction commits, and you use READ COMMITTED, your call returns the run of the other transaction.
- If the other transaction commits, and you use REPEATABLE READ or SERIALIZABLE, Postgres raises 40001, because your snapshot does not contain the run. Repeat your transaction: the call returns the run of the other transaction.

With SERIALIZABLE, Postgres raises 40001 in two more cases. Postgres raises 40001 if one call finds its `run_key` while another call adds a `run_key` to the same page of the table of keys. Postgres also raises 40001 if two calls count the waiting runs of a queue with `max_queued` at the same time. Repeat a transaction that gets 40001.

```sql
SELECT oarlock.enqueue('report', '{"day": "2026-11-20"}', run_key => 'report-2026-11-20');
```$$;
-- +goose StatementEnd

-- Inserts the rows of a bulk call that had free keys. Fields that every row needs are copied to variables, because taking them
-- out of a composite value for each row costs more than the check of the row.
-- +goose StatementBegin
CREATE FUNCTION oarlock.insert_many(asked oarlock.request, target oarlock.target, params jsonb[], keys text[], ids bigint[], kept bigint[],
    started timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    names     text[] := target.param_names;
    ok        jsonpath := target.params_ok;
    whole     bool := target.params_whole;
    dag       bigint := target.dag_id;
    version   int := target.version;
    lane      int := target.lane_id;
    labels    jsonb := target.labels;
    due       timestamptz := greatest(asked.run_at, started);
    deadline  timestamptz := due + target.queue_timeout;
    logical   timestamptz := coalesce(asked.run_at, started);
    submitter text := asked.submitter;
    trace     text := asked.traceparent;
    limited   bool := target.limits IS NOT NULL;
    uid       text := left(oarlock.new_uid()::text, 31); -- drawn once, and completed by the number of the row: random bits for each would be half of the call
BEGIN
    PERFORM oarlock.check_params(target.params, u.p, 'row ' || u.n || ': ') FROM unnest(params) WITH ORDINALITY u (p, n)
      WHERE NOT oarlock.plainly_fine(u.p, names, ok, whole);
    -- Runs that are due now are a microsecond apart, in the order of the call.
    INSERT INTO oarlock.runs (run_id, uid, dag_id, version, lane_id, params, labels, run_at, ready_at, logical_at, trigger, root_id,
                              submitted_by, run_key, traceparent, queue_deadline, created_at, limit_keys)
    OVERRIDING SYSTEM VALUE
    SELECT u.id, (uid || right(to_hex(1048576 + u.n), 5))::uuid, dag, version, lane, u.p, labels, due,
           CASE WHEN due > started THEN oarlock.place_of(u.id, due, started) ELSE due + u.n * interval '1 microsecond' END, logical, 'sql', u.id, submitter, u.key,
           trace, deadline, started, CASE WHEN limited THEN oarlock.limit_keys(target, u.p, NULL) END
      FROM unnest(ids, kept, params, keys) WITH ORDINALITY u (id, kept, p, key, n)
     WHERE u.id = u.kept;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.enqueue_many(dag text, params jsonb[], run_keys text[] DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority int DEFAULT NULL, queue text DEFAULT NULL, labels jsonb DEFAULT '{}', selector jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL, version int DEFAULT NULL) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    rows    int := coalesce(cardinality(enqueue_many.params), 0);
    given   jsonb[] := CASE WHEN array_ndims(enqueue_many.params) > 1 THEN NULL
                            WHEN array_position(enqueue_many.params, NULL) IS NULL THEN enqueue_many.params
                            ELSE ARRAY(SELECT coalesce(p, '{}') FROM unnest(enqueue_many.params) p) END;
    asked   oarlock.request := ROW(dag, '{}', NULL, run_at, priority, queue, labels, selector, NULL,
                traceparent, NULL, version, 'sql', session_user, coalesce(priority::text, queue, selector::text) IS NOT NULL AND oarlock.operates(),
                NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    target  oarlock.target;
    started timestamptz;
    ids     bigint[];
    kept    bigint[]; -- for each row its own id, or the run that has its key already
BEGIN
    IF rows = 0 THEN
        RETURN;
    ELSIF array_ndims(enqueue_many.params) > 1 OR array_ndims(run_keys) > 1 THEN
        RAISE EXCEPTION '% is an array of arrays', CASE WHEN array_ndims(enqueue_many.params) > 1 THEN 'params' ELSE 'run_keys' END
            USING ERRCODE = 'OA013', HINT = 'pass one array with an element for each run';
    ELSIF rows > 100000 THEN
        RAISE EXCEPTION '% runs in one call, at most 100000', rows USING ERRCODE = 'OA012', HINT = 'call it several times in one transaction';
    END IF;
    ids := ARRAY(SELECT nextval('oarlock.runs_run_id_seq') FROM generate_series(1, rows));
    kept := CASE WHEN run_keys IS NULL THEN ids ELSE oarlock.take_keys(asked, given, run_keys, ids) END;
    PERFORM pg_current_xact_id(); -- before the clock is read, as in insert_run
    started := clock_timestamp(); -- after the keys are taken, for which it may have waited
    -- row by row, because ids && kept compares each with each if no key is new, and cannot be canceled meanwhile
    IF run_keys IS NULL OR EXISTS (SELECT FROM unnest(ids, kept) u (id, kept) WHERE u.id = u.kept) THEN
        target := oarlock.find_target(asked, rows);
        PERFORM oarlock.insert_many(asked, target, given, run_keys, ids, kept, started);
        IF asked.run_at IS NULL OR asked.run_at <= started THEN
            PERFORM oarlock.wake(target.lane_id, rows);
        END IF;
    END IF;
    RETURN QUERY SELECT k FROM unnest(kept) k;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.enqueue_many IS $$Asks for many runs of one DAG, and returns the numbers of the runs in the order of `params`. The call makes all runs or no run. If an element of `params` is invalid, the call fails, and the error names the element.

If you pass `run_keys`, the array needs one key or null for each element of `params`. If a run with the same key exists, the call returns the existing run and makes no new run for the key. One call makes at most 100,000 runs. All other arguments mean the same as in `oarlock.enqueue`.

```sql
SELECT oarlock.enqueue_many('report', ARRAY['{"day": "2026-11-18"}', '{"day": "2026-11-19"}']::jsonb[],
                            ARRAY['report-2026-11-18', 'report-2026-11-19']);
```

The following call takes the params from a query:

```sql
SELECT oarlock.enqueue_many('report', array_agg(jsonb_build_object('day', d::date)))
  FROM generate_series(timestamp '2026-11-01', '2026-11-07', '1 day') d;
```$$;
-- +goose StatementEnd

-- Takes a key for each row that has one, in the order of keys, so that two calls do not wait for each other in a circle.
-- +goose StatementBegin
CREATE FUNCTION oarlock.take_keys(asked oarlock.request, params jsonb[], keys text[], ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    hashes bytea[] := ARRAY(SELECT oarlock.request_hash(asked.dag, p, asked.priority, asked.queue, asked.selector, asked.logical_at,
                                                      asked.precomputed, asked.version) FROM unnest(params) p);
    clash  text;
    kept   bigint[];
BEGIN
    IF cardinality(keys) <> cardinality(params) THEN
        RAISE EXCEPTION '% run_keys for % params', cardinality(keys), cardinality(params)
            USING ERRCODE = 'OA013', HINT = 'give a key or null for each';
    END IF;
    PERFORM oarlock.check_key(k) FROM unnest(keys) k WHERE k IS NOT NULL;
    LOOP -- as in take_key
        INSERT INTO oarlock.run_keys (submitter, run_key, run_id, request_hash)
        SELECT asked.submitter, u.key, u.id, u.hash FROM unnest(keys, ids, hashes) u (key, id, hash)
         WHERE u.key IS NOT NULL ORDER BY u.key, u.id ON CONFLICT DO NOTHING;
        SELECT array_agg(CASE WHEN u.key IS NULL THEN u.id ELSE k.run_id END ORDER BY u.n), min(u.key) FILTER (WHERE k.request_hash <> u.hash)
          INTO kept, clash
          FROM unnest(keys, ids, hashes) WITH ORDINALITY u (key, id, hash, n)
          LEFT JOIN oarlock.run_keys k ON k.submitter = asked.submitter AND k.run_key = u.key;
        EXIT WHEN array_position(kept, NULL) IS NULL;
    END LOOP;
    IF clash IS NOT NULL THEN
        RAISE EXCEPTION 'run_key "%" belongs to a run that was asked for with another dag, params or overrides', clash
            USING ERRCODE = 'OA004', HINT = 'use a new key for each request, and repeat a request unchanged';
    END IF;
    RETURN kept;
END $$;
-- +goose StatementEnd

-- Makes the child run that a step of a parent run asks for, and returns its number. Its key names the task and the attempt, so
-- that an action that this driver or the next one repeats finds the same child. The child belongs to the submitter of the parent,
-- and so does a run_key that the step names: other runs of the submitter, and the submitter itself, get the same run for the same
-- request by that key. A child that its parent waits for has no run_key, since its end is reported to one parent only. If another
-- transaction has the key and stays open, the call fails (55P03), so that it does not keep a connection waiting.
-- +goose StatementBegin
CREATE FUNCTION oarlock.enqueue_child(parent bigint, step int, item text, alt int, attempt int, generation int, dag text,
    params jsonb DEFAULT '{}', priority int DEFAULT NULL, queue text DEFAULT NULL, labels jsonb DEFAULT '{}', detached bool DEFAULT false,
    run_key text DEFAULT NULL, run_at timestamptz DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '25ms' AS $$
DECLARE
    p      oarlock.runs;
    id     bigint := nextval('oarlock.runs_run_id_seq');
    key    text := run_key;
    given  jsonb := coalesce(params, '{}');
    holder bigint;
    lane   int;
BEGIN
    SELECT * INTO p FROM oarlock.runs r WHERE r.run_id = parent;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no run %', parent USING ERRCODE = 'OA007', HINT = 'a parent must exist';
    END IF;
    IF p.depth >= 100 THEN
        RAISE EXCEPTION 'run % is 100 children deep already', parent USING ERRCODE = 'OA012', HINT = 'a DAG that starts itself needs an end';
    END IF;
    IF run_key IS NOT NULL THEN
        IF NOT detached THEN
            RAISE EXCEPTION 'a child that its parent waits for has no run_key' USING ERRCODE = 'OA013', HINT = 'use dag.enqueue';
        END IF;
        PERFORM oarlock.check_key(run_key);
    END IF;
    key := coalesce(key, 'oarlock:child:' || sha256(convert_to(jsonb_build_array(p.uid, step, item, alt, attempt, generation)::text, 'UTF8'))::text);
    -- the same key from a parent of another logical_at is the same request
    holder := oarlock.take_key(id, p.submitted_by, key,
        oarlock.request_hash(dag, given, priority, queue, NULL, CASE WHEN run_key IS NULL THEN p.logical_at END, NULL, NULL));
    IF holder <> id THEN
        RETURN holder;
    END IF;
    lane := oarlock.insert_checked(id, ROW(dag, given, key, run_at, priority, queue, labels, NULL, p.logical_at, p.traceparent,
        NULL, NULL, 'child', p.submitted_by, true,
        CASE WHEN NOT detached THEN parent END, CASE WHEN NOT detached THEN step END, CASE WHEN NOT detached THEN item END,
        CASE WHEN NOT detached THEN alt END, CASE WHEN NOT detached THEN p.root_id END, p.depth + 1, NULL, NULL, NULL)::oarlock.request,
        clock_timestamp());
    IF run_at IS NULL OR run_at <= clock_timestamp() THEN
        PERFORM oarlock.wake(lane, 1);
    END IF;
    RETURN id;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.enqueue_child IS 'Internal: the run that a dag.run or (detached) dag.enqueue step asks for.';

-- The inbox ---------------------------------------------------------------------------------------------------------

CREATE VIEW oarlock.inbox WITH (security_barrier) AS
SELECT r.run_id, d.name AS dag, r.params, r.run_key, r.run_at, l.priority, l.queue, r.labels, l.selector, r.logical_at,
       r.traceparent, r.precomputed, r.version,
       CASE WHEN r.state = 'queued' AND r.epoch = 0 AND r.run_at > clock_timestamp() THEN 'scheduled' ELSE r.state END AS state,
       r.reason, r.submitted_by, r.created_at, r.started_at, r.finished_at
  FROM oarlock.runs r
  JOIN oarlock.dags d ON d.dag_id = r.dag_id
  JOIN oarlock.lanes l ON l.lane_id = r.lane_id
 WHERE r.submitted_by = session_user OR (SELECT oarlock.sees_all());
-- +goose StatementBegin
COMMENT ON VIEW oarlock.inbox IS $$Shows runs as rows. To ask for a run, insert a row into `oarlock.inbox`, in your own transaction and from any language. You see your own runs in `oarlock.inbox`; logins with the role `oarlock_read`, `oarlock_worker` or `oarlock_admin` see all runs.

`dag` is required. `params`, `run_key`, `run_at`, `priority`, `queue`, `labels`, `selector`, `logical_at`, `traceparent`, `precomputed` and `version` mean the same as in `oarlock.enqueue`. Oarlock fills all other columns of `oarlock.inbox`. An INSERT that sets a column which Oarlock fills is refused (OA013).

- You can insert rows into `oarlock.inbox` with `INSERT … VALUES`, `INSERT … SELECT` and `COPY`.
- `RETURNING` gives the `run_id` of the run, and for all other columns the values of your INSERT. For example, `state` is null. If a run with the same `run_key` exists, `run_id` is the number of the existing run.
- `ON CONFLICT` has no effect, because `oarlock.inbox` is a view. With `ON CONFLICT DO NOTHING`, the INSERT still makes a run. Use `run_key` to make a run only once.
- UPDATE and DELETE of `oarlock.inbox` are refused. To change a run, use the functions under *Control*.

```sql
INSERT INTO oarlock.inbox (dag, params, run_key)
VALUES ('report', '{"day": "2026-11-20"}', 'report-2026-11-20')
RETURNING run_id;
```

```sql
SELECT run_id, state, reason FROM oarlock.inbox WHERE dag = 'report' ORDER BY run_id DESC LIMIT 20;
```$$;
-- +goose StatementEnd

-- Inserts a run for a row of the inbox. A setting of the transaction keeps the lanes that the statement used until its end. A
-- user may write nonsense there: then a worker is woken for nothing, which any user can do by NOTIFY, or it is not woken, and
-- finds the run by its next poll.
-- +goose StatementBegin
CREATE FUNCTION oarlock.inbox_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id      bigint := nextval('oarlock.runs_run_id_seq');
    given   jsonb := coalesce(NEW.params, '{}');
    touched text;
    lane    int;
BEGIN
    IF NOT (NEW.run_id, NEW.state, NEW.reason, NEW.submitted_by, NEW.created_at, NEW.started_at, NEW.finished_at) IS NULL THEN
        RAISE EXCEPTION 'run_id, state, reason, submitted_by, created_at, started_at and finished_at are not yours to choose'
            USING ERRCODE = 'OA013', HINT = 'leave them out of the INSERT';
    END IF;
    IF NEW.run_key IS NOT NULL THEN
        PERFORM oarlock.check_key(NEW.run_key);
        NEW.run_id := oarlock.take_key(id, session_user, NEW.run_key,
            oarlock.request_hash(NEW.dag, given, NEW.priority, NEW.queue, NEW.selector, NEW.logical_at, NEW.precomputed, NEW.version));
        IF NEW.run_id <> id THEN
            RETURN NEW;
        END IF;
    END IF;
    NEW.run_id := id;
    lane := oarlock.insert_run(id, NEW.dag, given, NEW.run_key, NEW.run_at, NEW.priority, NEW.queue, coalesce(NEW.labels, '{}'), NEW.selector,
        NEW.logical_at, NEW.traceparent, NEW.precomputed, NEW.version, 'sql', session_user);
    IF NEW.run_at IS NULL OR NEW.run_at <= clock_timestamp() THEN
        touched := current_setting('oarlock.touched', true);
        IF coalesce(position(',' || lane || ':' IN touched), 0) = 0 AND coalesce(length(touched), 0) < 1000 THEN
            PERFORM set_config('oarlock.touched', concat(touched, ',', lane, ':', id), true);
        END IF;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.inbox_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    touched text := current_setting('oarlock.touched', true);
BEGIN
    IF touched <> '' THEN
        PERFORM set_config('oarlock.touched', '', true);
        IF EXISTS (SELECT FROM oarlock.workers w WHERE w.state = 'live' AND (w.hungry > 0 OR w.least IS NOT NULL)) THEN
            PERFORM oarlock.wake(m[1]::int, greatest(1, pg_sequence_last_value('oarlock.runs_run_id_seq') - m[2]::bigint + 1))
               FROM regexp_matches(touched, ',([0-9]{1,9}):([0-9]{1,18})', 'g') m;
        END IF;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER inbox_insert INSTEAD OF INSERT ON oarlock.inbox FOR EACH ROW EXECUTE FUNCTION oarlock.inbox_insert();
CREATE TRIGGER inbox_inserted AFTER INSERT ON oarlock.inbox FOR EACH STATEMENT EXECUTE FUNCTION oarlock.inbox_inserted();

-- +goose Down
DROP VIEW oarlock.inbox;
DROP FUNCTION oarlock.inbox_inserted();
DROP FUNCTION oarlock.inbox_insert();
DROP FUNCTION oarlock.enqueue_child(bigint, int, text, int, int, int, text, jsonb, int, text, jsonb, bool, text, timestamptz);
DROP FUNCTION oarlock.take_keys(oarlock.request, jsonb[], text[], bigint[]);
DROP FUNCTION oarlock.enqueue_many(text, jsonb[], text[], timestamptz, int, text, jsonb, jsonb, text, int);
DROP FUNCTION oarlock.insert_many(oarlock.request, oarlock.target, jsonb[], text[], bigint[], bigint[], timestamptz);
DROP FUNCTION oarlock.enqueue(text, jsonb, text, timestamptz, int, text, jsonb, jsonb, timestamptz, text, jsonb, int, text);
DROP FUNCTION oarlock.insert_run(bigint, text, jsonb, text, timestamptz, int, text, jsonb, jsonb, timestamptz, text, jsonb, int, text, text, bigint, text, timestamptz);
DROP FUNCTION oarlock.insert_checked(bigint, oarlock.request, timestamptz);
DROP FUNCTION oarlock.limit_keys(oarlock.target, jsonb, bigint);
DROP FUNCTION oarlock.place_of(bigint, timestamptz, timestamptz);
DROP FUNCTION oarlock.take_key(bigint, text, text, bytea);
DROP FUNCTION oarlock.request_hash(text, jsonb, int, text, jsonb, timestamptz, jsonb, int);
DROP FUNCTION oarlock.wake(int, bigint, int, timestamptz);
DROP FUNCTION oarlock.may_serve(oarlock.workers, text[], oarlock.lanes);
DROP FUNCTION oarlock.check_precomputed(jsonb, text[]);
DROP FUNCTION oarlock.find_target(oarlock.request, int);
DROP FUNCTION oarlock.plainly_fine(jsonb, text[], jsonpath, bool);
DROP FUNCTION oarlock.check_room(int, int);
DROP FUNCTION oarlock.hold_lane(int);
DROP FUNCTION oarlock.override_lane(oarlock.request, oarlock.dag_versions, bool, bool);
DROP FUNCTION oarlock.find_lane(text, int, jsonb, text[], int, bigint, bool, bigint);
DROP FUNCTION oarlock.make_lane(text, int, jsonb, text[], int, bigint, bool, bigint);
DROP TYPE oarlock.target;
DROP TYPE oarlock.request;
DROP FUNCTION oarlock.check_key(text);
DROP FUNCTION oarlock.check_labels(text, jsonb);
DROP FUNCTION oarlock.params_path(jsonb);
DROP FUNCTION oarlock.check_params(jsonb, jsonb, text);
DROP FUNCTION oarlock.param_problem(jsonb, jsonb);
DROP FUNCTION oarlock.is_in_known_years(timestamptz);
DROP FUNCTION oarlock.check_rows(int, int, text);
DROP FUNCTION oarlock.check_dag(bool, text, int);
DROP FUNCTION oarlock.check_depth(text, jsonb);
DROP FUNCTION oarlock.sees_run_of(text);
DROP FUNCTION oarlock.sees_all();
DROP FUNCTION oarlock.operates();
DROP FUNCTION oarlock.role_is_one_of(text, text[]);
ALTER TABLE oarlock.runs DROP COLUMN actor;
DROP FUNCTION oarlock.is_mine(text);
DROP FUNCTION oarlock.who();
DROP FUNCTION oarlock.actor();
DROP FUNCTION oarlock.is_one_of(text[]);
DROP VIEW oarlock.error_codes;
