-- +goose Up

-- Backfills ---------------------------------------------------------------------------------------------------------
--
-- A backfill is a schedule with times in the past. It has a row in schedules, with the times and params that its schedule had
-- when the backfill was made, and the bounds from_at and until_at. All rules of schedules apply, above all that a time is
-- decided once.

-- Returns the time up to which a schedule leaves times to its backfills: up to decided_at, and while it is paused up to now.
CREATE FUNCTION oarlock.left_until(s oarlock.schedules) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN CASE WHEN (s).paused_by IS NULL THEN (s).decided_at ELSE greatest((s).decided_at, clock_timestamp()) END;

-- Returns the runs of one time of a schedule, and repeats of these: made by the schedule, or by a backfill of it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.runs_at(schedule bigint, at timestamptz) RETURNS TABLE (run_id bigint, state text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT r.run_id, r.state FROM oarlock.schedules s JOIN oarlock.runs r ON r.schedule_id = s.schedule_id AND r.logical_at = runs_at.at AND r.retry_of IS NULL
     WHERE s.schedule_id = runs_at.schedule OR s.backfill_of = runs_at.schedule
    UNION ALL
    SELECT r.run_id, r.state FROM oarlock.schedules s JOIN oarlock.runs r ON r.schedule_id = s.schedule_id AND r.logical_at = runs_at.at AND r.retry_of IS NOT NULL
     WHERE s.schedule_id = runs_at.schedule OR s.backfill_of = runs_at.schedule;
END;
-- +goose StatementEnd

-- Returns why a backfill leaves a time alone, and the run that is the reason; both null: the time fires.
-- +goose StatementBegin
CREATE FUNCTION oarlock.spared(s oarlock.schedules, at timestamptz, OUT run bigint, OUT reason text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    state text;
BEGIN
    IF s.reprocess = 'all' THEN
        RETURN;
    END IF;
    SELECT r.run_id, r.state INTO run, state FROM oarlock.runs_at(s.backfill_of, at) r
     WHERE s.reprocess = 'failed' OR r.state NOT IN ('failed', 'canceled') ORDER BY r.run_id DESC LIMIT 1;
    IF run IS NULL AND s.reprocess = 'failed' THEN
        reason := 'it has no run that failed';
    ELSIF state IN ('failed', 'canceled') THEN
        run := NULL;
    ELSIF run IS NOT NULL THEN
        reason := format(CASE state WHEN 'succeeded' THEN 'run %s succeeded' ELSE 'run %s is not over' END, run);
    END IF;
END $$;
-- +goose StatementEnd

-- Records that a backfill leaves a time alone. Returns false if the time fires.
-- +goose StatementBegin
CREATE FUNCTION oarlock.spare(s oarlock.schedules, at timestamptz) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
    why record := oarlock.spared(s, at);
BEGIN
    IF why.reason IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO oarlock.fires (schedule_id, logical_at, outcome, run_id, reason) VALUES (s.schedule_id, at, 'skipped', why.run, why.reason)
    ON CONFLICT DO NOTHING; -- a user triggered this time
    RETURN true;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.end_backfill(s oarlock.schedules) RETURNS oarlock.decision
LANGUAGE plpgsql AS $$
DECLARE
    said text := format('%s fired, %s skipped, %s refused', count(*) FILTER (WHERE f.outcome = 'fired'), count(*) FILTER (WHERE f.outcome = 'skipped'),
                        count(*) FILTER (WHERE f.outcome = 'refused')) FROM oarlock.fires f WHERE f.schedule_id = s.schedule_id;
BEGIN
    PERFORM oarlock.end_schedule(s.schedule_id);
    RETURN ROW('ended', 1, NULL, said, NULL)::oarlock.decision;
END $$;
-- +goose StatementEnd

-- Checks the arguments of a backfill, and returns it as a row that is not stored yet.
-- +goose StatementBegin
CREATE FUNCTION oarlock.plan_backfill(of oarlock.schedules, from_at timestamptz, until_at timestamptz, reprocess text, newest_first bool) RETURNS oarlock.schedules
LANGUAGE plpgsql STABLE AS $$
DECLARE
    most CONSTANT int := 100000;
    s     oarlock.schedules := of;
    tick  CONSTANT interval := interval '1 microsecond';
    seconds numeric;
    bound numeric;
    wrong text[] := CASE
        WHEN of.backfill_of IS NOT NULL THEN ARRAY[format('%s is a backfill itself', of.name), 'name the schedule']
        WHEN (oarlock.is_in_known_years(from_at) AND oarlock.is_in_known_years(until_at)) IS NOT TRUE THEN
             ARRAY['from_at and until_at must be moments of the years 20 to 9899, not null', 'until_at is the first moment that may not fire']
        WHEN from_at >= until_at THEN ARRAY['until_at is not after from_at', 'from_at is the first moment that may fire, until_at the first that may not']
        WHEN coalesce(reprocess, 'missing') NOT IN ('missing', 'failed', 'all') THEN ARRAY[format('reprocess is %s', left(reprocess, 100)), 'it is missing, failed or all']
    END;
BEGIN
    PERFORM oarlock.check_removed(d) FROM oarlock.dags d WHERE d.dag_id = of.dag_id;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'backfill: %', wrong[1] USING ERRCODE = 'OA013', HINT = wrong[2];
    END IF;
    s.backfill_of := of.schedule_id;
    s.schedule_id := NULL;
    s.from_at := from_at;
    s.until_at := until_at;
    s.reprocess := coalesce(reprocess, 'missing');
    s.newest_first := coalesce(newest_first, false);
    s.decided_at := CASE WHEN s.newest_first THEN until_at ELSE from_at - tick END;
    IF oarlock.coming_of(s) IS NULL THEN
        RAISE EXCEPTION 'backfill: schedule % has no time between % and %', of.name, from_at, until_at USING ERRCODE = 'OA013',
            HINT = 'its next times: SELECT * FROM oarlock.schedule_times(dag, name)';
    END IF;
    -- Counting 100,000 times takes seconds, so it is done only if the span may have more.
    seconds := extract(epoch FROM least(until_at, (s.timing).end_at) - greatest(from_at, (s.timing).start_at));
    bound := CASE WHEN (s.timing).every_ms IS NOT NULL THEN seconds * 1000 / (s.timing).every_ms ELSE (seconds / 86400 + 1) * cardinality(((s.timing).compiled).minutes) END;
    IF bound > most AND ((s.timing).every_ms IS NOT NULL AND coalesce((s.timing).except_at, '{}') = '{}'
                         OR oarlock.count_times(s.timing, from_at - tick, until_at - tick, most) IS NULL) THEN
        RAISE EXCEPTION 'backfill: more than % times', most USING ERRCODE = 'OA012', HINT = 'make several, one after the other';
    END IF;
    RETURN s;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.backfill(dag text, name text, from_at timestamptz, until_at timestamptz, at_once int DEFAULT 1, reprocess text DEFAULT 'missing',
    newest_first bool DEFAULT false, params jsonb DEFAULT NULL, owner text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    of     oarlock.schedules := oarlock.lock_schedule(dag, name, owner);
    s      oarlock.schedules := oarlock.plan_backfill(of, from_at, until_at, reprocess, newest_first);
    merged jsonb;
BEGIN
    IF coalesce(at_once, 1) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'backfill: at_once is %', at_once USING ERRCODE = 'OA013', HINT = 'it is from 1 to 1000';
    ELSIF jsonb_typeof(params) <> 'object' THEN
        RAISE EXCEPTION 'backfill: params must be an object, not %', jsonb_typeof(params) USING ERRCODE = 'OA013', HINT = 'like {"day": "2026-11-20"}';
    END IF;
    merged := s.params || coalesce(params, '{}');
    PERFORM oarlock.check_params(v.params, merged, 'backfill: ') FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
      WHERE d.dag_id = s.dag_id;
    s.schedule_id := nextval(pg_get_serial_sequence('oarlock.schedules', 'schedule_id'));
    INSERT INTO oarlock.schedules (schedule_id, dag_id, name, owner, timing, params, labels, overlap_policy, at_once, catchup, catchup_max, jitter_ms,
        pause_on_failure, decided_at, backfill_of, from_at, until_at, reprocess, newest_first)
    OVERRIDING SYSTEM VALUE
    VALUES (s.schedule_id, s.dag_id, s.name || '#' || s.schedule_id, s.owner, s.timing, merged, s.labels, 'all', coalesce(at_once, 1), true, s.catchup_max, 0,
        s.pause_on_failure, s.decided_at, s.backfill_of, s.from_at, s.until_at, s.reprocess, s.newest_first) RETURNING * INTO s;
    PERFORM oarlock.check_number();
    PERFORM oarlock.arm_schedule(s);
    RETURN s.schedule_id;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.backfill IS $$Makes runs for past fire times of a schedule that belongs to your login: for all fire times from `from_at` on and before `until_at`. Returns the number of the backfill. Administrators backfill any schedule. A backfill has at most 100,000 fire times. A backfill also makes runs while its schedule is paused.

- `at_once`: how many runs of the backfill are open at the same time at most. The priority of the runs of a backfill is the priority of the DAG minus 10, so other runs of the DAG start first.
- `reprocess`: which fire times get a run. With `missing`, a fire time gets a run if it has no run that succeeded and no run that is open. With `failed`, a fire time gets a run if its newest run failed or was canceled. With `all`, each fire time gets a run.
- `newest_first`: if true, the backfill begins with the newest fire time. For a fire time in the future, the backfill waits until the schedule itself has decided the fire time.
- `params`: values that replace the params of the schedule with the same name.

If you change the schedule, its backfills do not change. If you drop the schedule, its backfills end.

A backfill is itself a schedule: `nightly#12` is backfill 12 of the schedule `nightly`. You see the progress of a backfill with `schedule_fires` and `schedule_list`. `schedule_list` shows a backfill until its last run has ended. You pause a backfill with `pause_schedule`, and cancel a backfill with `drop_schedule`.

```sql
SELECT oarlock.backfill('report', 'acme nightly', '2026-11-01T00:00:00Z', '2026-11-20T00:00:00Z', at_once => 4);
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.backfill_times(dag text, name text, from_at timestamptz, until_at timestamptz, reprocess text DEFAULT 'missing',
    newest_first bool DEFAULT false, owner text DEFAULT NULL, rows int DEFAULT 1000) RETURNS TABLE (logical_at timestamptz, outcome text, run bigint, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    of oarlock.schedules := oarlock.find_schedule(dag, name, owner, oarlock.operates());
    s  oarlock.schedules := oarlock.plan_backfill(of, from_at, until_at, reprocess, newest_first);
BEGIN
    rows := coalesce(rows, 1000);
    IF rows NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'rows is from 1 to 1000, not %', rows USING ERRCODE = 'OA013', HINT = 'more are after the last of these';
    END IF;
    FOR i IN 1 .. rows LOOP
        logical_at := oarlock.coming_of(s);
        EXIT WHEN logical_at IS NULL;
        SELECT x.run, x.reason INTO run, reason FROM oarlock.spared(s, logical_at) x;
        outcome := CASE WHEN reason IS NULL THEN 'fires' ELSE 'skipped' END;
        reason := coalesce(reason, CASE WHEN logical_at > oarlock.left_until(of) THEN 'once the schedule has decided it' ELSE '' END);
        s.decided_at := logical_at;
        RETURN NEXT;
    END LOOP;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.backfill_times IS $$Returns the result that `oarlock.backfill` with the same arguments would have for each fire time at this moment. `oarlock.backfill_times` changes nothing. `outcome` is `fires`, or `skipped` with `reason` and `run`. `rows` is at most 1,000. To get more fire times, call `oarlock.backfill_times` with another `from_at` or `until_at`.

```sql
SELECT logical_at, outcome, reason FROM oarlock.backfill_times('report', 'acme nightly', '2026-11-01T00:00:00Z', '2026-11-20T00:00:00Z');
```$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION oarlock.backfill_times(text, text, timestamptz, timestamptz, text, bool, text, int);
DROP FUNCTION oarlock.backfill(text, text, timestamptz, timestamptz, int, text, bool, jsonb, text);
DROP FUNCTION oarlock.plan_backfill(oarlock.schedules, timestamptz, timestamptz, text, bool);
DROP FUNCTION oarlock.end_backfill(oarlock.schedules);
DROP FUNCTION oarlock.spare(oarlock.schedules, timestamptz);
DROP FUNCTION oarlock.spared(oarlock.schedules, timestamptz);
DROP FUNCTION oarlock.runs_at(bigint, timestamptz);
DROP FUNCTION oarlock.left_until(oarlock.schedules);
