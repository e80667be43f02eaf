-- +goose Up

-- DAGs --------------------------------------------------------------------------------------------------------------

-- +goose StatementBegin
CREATE FUNCTION oarlock.check_spec(spec jsonb, needs text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    unsupported text[] := ARRAY(SELECT n FROM unnest(needs) n WHERE n = ANY ('{action:river.job}') ORDER BY n);
BEGIN
    IF jsonb_typeof(spec) IS DISTINCT FROM 'object' OR jsonb_typeof(spec -> 'steps') IS DISTINCT FROM 'array'
       OR jsonb_array_length(spec -> 'steps') = 0 OR coalesce(spec ->> 'name', '') !~ '^[a-z0-9][a-z0-9._-]{0,99}$' THEN
        RAISE EXCEPTION 'this is not the spec of a DAG' USING ERRCODE = 'OA013', HINT = 'put it with `oarlock dag apply`, which checks the file';
    END IF;
    IF unsupported <> '{}' THEN
        RAISE EXCEPTION 'dag % uses what this version of Oarlock cannot execute: %', spec ->> 'name', array_to_string(unsupported, ', ')
            USING ERRCODE = 'OA009', HINT = 'leave it out of the DAG, or upgrade Oarlock';
    END IF;
    PERFORM oarlock.check_depth('the spec', spec);
    IF octet_length(spec::text) > 33554432 THEN
        RAISE EXCEPTION 'the spec has % bytes, at most 33554432', octet_length(spec::text) USING ERRCODE = 'OA012', HINT = 'use foreach, or child runs';
    END IF;
END $$;
-- +goose StatementEnd

-- Returns the limit by key of a spec as enqueue and claims read it; see dags.current_limits. The key is cut into texts, params and labels
-- once, so that an insert need not parse it. Its mark tells keys of this definition from keys of the definitions of other versions.
-- +goose StatementBegin
CREATE FUNCTION oarlock.compile_limits(spec jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    def jsonb := spec -> 'concurrency';
    key text := coalesce(def ->> 'key', '');
BEGIN
    IF def IS NULL OR def = 'null' THEN
        RETURN NULL;
    END IF;
    IF (jsonb_typeof(def) = 'object' AND coalesce(jsonb_typeof(def -> 'key'), 'string') = 'string' AND def ->> 'limit' ~ '^[1-9][0-9]{0,5}$|^1000000$'
        AND regexp_replace(key, '\$\{(params\.[A-Za-z0-9_-]+|labels\.[A-Za-z0-9._/-]+)\}', '', 'g') !~ '\$') IS NOT TRUE THEN
        RAISE EXCEPTION 'this is no limit by key: %', left(def::text, 200) USING ERRCODE = 'OA013', HINT = 'put the DAG with `oarlock dag apply`, which checks the file';
    END IF;
    RETURN jsonb_build_array(jsonb_build_object('limit', (def ->> 'limit')::int, 'mark', left(md5(key), 8), 'key', (
               SELECT coalesce(jsonb_agg(CASE WHEN m[2] IS NOT NULL THEN jsonb_build_object('param', m[2]) WHEN m[3] IS NOT NULL THEN jsonb_build_object('label', m[3])
                                         ELSE jsonb_build_object('text', m[1]) END ORDER BY n), '[]')
                 FROM regexp_matches(key, '([^$]+)|\$\{(?:params\.([A-Za-z0-9_-]+)|labels\.([A-Za-z0-9._/-]+))\}', 'g') WITH ORDINALITY p (m, n))));
END $$;
-- +goose StatementEnd

-- Sets the lane of new runs of a DAG that override nothing. While the DAG is paused, that is a lane of its own. The lane stays, since
-- enqueue reads its number from the DAG and does not lock it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.place_dag(dag bigint) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE oarlock.dags d
       SET current_lane = CASE WHEN d.paused_by IS NULL THEN v.lane_id
                               ELSE oarlock.find_lane(l.queue, l.priority, l.selector, l.needs, l.slots, d.dag_id, l.keyed, NULL) END
      FROM oarlock.dag_versions v JOIN oarlock.lanes l USING (lane_id)
     WHERE d.dag_id = dag AND v.dag_id = d.dag_id AND v.version = d.current_version;
    UPDATE oarlock.lanes l SET stays = true FROM oarlock.dags d WHERE d.dag_id = dag AND l.lane_id = d.current_lane AND NOT l.stays;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.put_dag(spec jsonb, source text, hash text, needs text[], max_slots int DEFAULT 1, queue_timeout_ms bigint DEFAULT 0,
    source_path text DEFAULT NULL, keep_schedules bool DEFAULT false, pools jsonb DEFAULT '{}', OUT dag_id bigint, OUT version int, OUT is_new bool)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    widest   int := coalesce(put_dag.max_slots, 1);
    timeout  bigint := coalesce(put_dag.queue_timeout_ms, 0);
    queue    text := coalesce(spec ->> 'queue', 'default');
    priority int := coalesce((spec ->> 'priority')::int, 0);
    selector jsonb := coalesce(spec -> 'worker_selector', '{}');
    limited  int := coalesce((spec ->> 'max_active_runs')::int, 0);
    limits   jsonb := oarlock.compile_limits(spec);
    kinds    text[] := ARRAY(SELECT DISTINCT n FROM unnest(needs) n ORDER BY n);
    defs     jsonb := coalesce(spec -> 'params', '[]');
    uses     jsonb := coalesce(put_dag.pools, '{}');
    first    text[];
    lane     int;
    removed  bool;
BEGIN
    IF num_nulls(source, hash, needs) > 0 THEN
        RAISE EXCEPTION 'a version of a DAG has a source, a hash and needs' USING ERRCODE = 'OA013', HINT = 'put it with `oarlock dag apply`; needs may be empty';
    END IF;
    PERFORM oarlock.check_spec(put_dag.spec, put_dag.needs);
    PERFORM oarlock.check_labels('worker_selector', selector);
    PERFORM oarlock.check_pools(put_dag.spec ->> 'name', uses);
    first := ARRAY(SELECT e.key FROM jsonb_each(uses) e WHERE (e.value ->> 'first')::bool ORDER BY e.key);
    INSERT INTO oarlock.dags (name, current_version) VALUES (put_dag.spec ->> 'name', 1) ON CONFLICT DO NOTHING;
    SELECT d.dag_id, d.current_version, d.removed_at IS NOT NULL INTO put_dag.dag_id, put_dag.version, removed FROM oarlock.dags d
     WHERE d.name = put_dag.spec ->> 'name' FOR NO KEY UPDATE;
    SELECT NOT coalesce(bool_or(v.version = put_dag.version AND v.hash = put_dag.hash), false), coalesce(max(v.version), 0) + 1
      INTO is_new, version FROM oarlock.dag_versions v WHERE v.dag_id = put_dag.dag_id;
    IF NOT is_new THEN
        IF removed THEN
            UPDATE oarlock.dags d SET removed_at = NULL WHERE d.dag_id = put_dag.dag_id;
            PERFORM oarlock.place_schedules(put_dag.dag_id);
        END IF;
        SELECT d.current_version INTO version FROM oarlock.dags d WHERE d.dag_id = put_dag.dag_id;
        UPDATE oarlock.dag_versions v SET source_path = put_dag.source_path
         WHERE v.dag_id = put_dag.dag_id AND v.version = put_dag.version AND v.source_path IS DISTINCT FROM put_dag.source_path
           AND put_dag.source_path IS NOT NULL;
        IF NOT coalesce(keep_schedules, false) THEN -- the same file may have been put with other schedules kept
            PERFORM oarlock.sync_schedules(put_dag.dag_id, coalesce(put_dag.spec -> 'schedule', '[]'));
        END IF;
        RETURN;
    END IF;
    INSERT INTO oarlock.queues (name) VALUES (queue) ON CONFLICT DO NOTHING;
    lane := oarlock.find_lane(queue, priority, selector, kinds, widest, CASE WHEN limited > 0 OR limits IS NOT NULL OR first <> '{}' THEN put_dag.dag_id ELSE 0 END, limits IS NOT NULL, 0);
    UPDATE oarlock.lanes l SET stays = true WHERE l.lane_id = lane AND NOT l.stays;
    INSERT INTO oarlock.dag_versions (dag_id, version, spec, source, source_path, hash, needs, max_slots, pools, queue, priority, selector,
        allow_queue, allow_priority, allow_selector, params, param_names, params_ok, params_whole, labels, precomputable, lane_id, queue_timeout_ms, max_drives,
        retention_days, retention_runs, logs_days, put_by)
    VALUES (put_dag.dag_id, put_dag.version, put_dag.spec, put_dag.source, put_dag.source_path, put_dag.hash, kinds, widest, uses, queue, priority, selector,
        coalesce((put_dag.spec #>> '{allow,queue}')::bool, false), coalesce((put_dag.spec #>> '{allow,priority}')::bool, false),
        coalesce((put_dag.spec #>> '{allow,selector}')::bool, false),
        defs, ARRAY(SELECT d ->> 'name' FROM jsonb_array_elements(defs) d), oarlock.params_path(defs),
        defs @> '[{"type": "integer"}]', coalesce(put_dag.spec -> 'labels', '{}'),
        ARRAY(SELECT s ->> 'id' FROM jsonb_array_elements(put_dag.spec -> 'steps') s WHERE s -> 'precomputable' = 'true'),
        lane, timeout, coalesce((put_dag.spec ->> 'max_drives')::int, 5),
        coalesce((put_dag.spec #>> '{retention,days}')::int, 30), coalesce((put_dag.spec #>> '{retention,runs}')::int, 0),
        coalesce((put_dag.spec #>> '{retention,logs_days}')::int, 14), oarlock.who());
    UPDATE oarlock.dags d
       SET current_version = v.version, max_active_runs = limited, current_limits = limits, current_pools = first, removed_at = NULL, current_queue = v.queue,
           current_lane = v.lane_id, current_names = v.param_names, current_ok = v.params_ok, current_whole = v.params_whole, current_labels = v.labels,
           current_timeout = CASE WHEN v.queue_timeout_ms > 0 THEN v.queue_timeout_ms * interval '1 millisecond' END,
           current_by = session_user, current_grants = coalesce((v.spec #>> '{allow,schedules}')::bool, false)
      FROM oarlock.dag_versions v
     WHERE d.dag_id = put_dag.dag_id AND v.dag_id = d.dag_id AND v.version = put_dag.version;
    PERFORM oarlock.place_dag(d.dag_id) FROM oarlock.dags d WHERE d.dag_id = put_dag.dag_id AND d.paused_by IS NOT NULL;
    IF removed THEN
        PERFORM oarlock.place_schedules(put_dag.dag_id);
    END IF;
    IF NOT coalesce(keep_schedules, false) THEN
        PERFORM oarlock.sync_schedules(put_dag.dag_id, coalesce(put_dag.spec -> 'schedule', '[]'));
    END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.put_dag IS $$Registers a version of a DAG, and makes this version the current version; for administrators. If you can, use the command `oarlock dag apply` instead of `oarlock.put_dag`: `oarlock dag apply` checks the spec and calls `oarlock.put_dag`.

If `hash` is the hash of the current version, the call makes no new version, and `is_new` is false. If the DAG was removed, the call takes the DAG back into service. If you pass no `source_path` with an unchanged `hash`, the stored path stays. A spec that this version of Oarlock cannot execute is refused with OA009. Runs that exist keep their version of the DAG.

- `needs`: what a worker must offer to execute the DAG, such as `process`, `action:http.request` or `secrets:env`.
- `max_slots`: the number of slots of the step that needs the most slots.
- `queue_timeout_ms`: for how many milliseconds at most a run may wait to start. 0 means for ever.
- `keep_schedules`: if true, the schedules of the DAG stay as they are. If false, the schedules in the spec replace the schedules of the DAG.
- `pools`: for each pool that steps name: the largest weight, whether a step gives a key, whether a step gives none, and whether each step with which a run begins needs the pool: `{"heavy": {"weight": 2, "key": false, "bare": true, "first": true}}`.

```sql
SELECT version, is_new FROM oarlock.put_dag('{"name": "hello", "steps": [{"id": "greet", "run": "echo hello"}]}', 'name: hello …', 'a hash of the source', '{process}');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.set_dag(dag text, paused bool DEFAULT NULL, removed bool DEFAULT NULL, oldest int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed bigint;
BEGIN
    IF oldest < 1 OR oldest > (SELECT d.current_version FROM oarlock.dags d WHERE d.name = dag) THEN
        RAISE EXCEPTION 'dag % has no version % that could be the oldest', dag, oldest USING ERRCODE = 'OA013', HINT = 'name one from 1 to the current version: oarlock dag versions DAG';
    END IF;
    UPDATE oarlock.dags d
       SET paused_by = CASE paused WHEN true THEN coalesce(d.paused_by, oarlock.who()) WHEN false THEN NULL ELSE d.paused_by END,
           paused_at = CASE paused WHEN true THEN coalesce(d.paused_at, clock_timestamp()) WHEN false THEN NULL ELSE d.paused_at END,
           removed_at = CASE removed WHEN true THEN coalesce(d.removed_at, clock_timestamp()) WHEN false THEN NULL ELSE d.removed_at END,
           oldest_version = coalesce(oldest, d.oldest_version)
     WHERE d.name = dag RETURNING d.dag_id INTO changed;
    PERFORM oarlock.check_dag(FOUND, dag);
    IF paused IS NOT NULL THEN
        PERFORM oarlock.place_dag(changed);
    END IF;
    IF NOT removed THEN
        PERFORM oarlock.place_schedules(changed);
    END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.set_dag IS $$Pauses or removes a DAG, or retires versions of a DAG; for administrators. An argument that you leave out changes nothing.

- `paused`: a paused DAG accepts new runs, and starts no runs. Runs that have started go on.
- `removed`: a removed DAG is out of service and accepts no new runs. Runs that have started go on. `removed => false` takes the DAG back into service.
- `oldest`: retires all versions of the DAG with a number below `oldest`. A retired version accepts no new runs, and submitters cannot retry the runs of a retired version.

```sql
SELECT oarlock.set_dag('report', paused => true);
```

```sql
SELECT oarlock.set_dag('report', oldest => 1);
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.set_queue(queue text, paused bool DEFAULT NULL, max_running int DEFAULT NULL, max_queued int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF queue IS NULL OR queue !~ '^[a-z0-9][a-z0-9._-]{0,99}$' OR max_running < 0 OR max_queued < 0 THEN
        RAISE EXCEPTION 'a queue has a name of a-z, 0-9 and ._- and limits from 0 on' USING ERRCODE = 'OA013', HINT = '0 is no limit';
    END IF;
    INSERT INTO oarlock.queues (name) VALUES (queue) ON CONFLICT DO NOTHING;
    UPDATE oarlock.queues q
       SET paused_by = CASE paused WHEN true THEN coalesce(q.paused_by, oarlock.who()) WHEN false THEN NULL ELSE q.paused_by END,
           paused_at = CASE paused WHEN true THEN coalesce(q.paused_at, clock_timestamp()) WHEN false THEN NULL ELSE q.paused_at END,
           max_running = coalesce(set_queue.max_running, q.max_running), max_queued = coalesce(set_queue.max_queued, q.max_queued)
     WHERE q.name = queue;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.set_queue IS $$Makes a queue, or changes a queue; for administrators. An argument that you leave out changes nothing.

- `paused`: a paused queue accepts new runs, and starts no runs. Runs that have started go on.
- `max_running`: how many runs of the queue workers hold at once at most. 0 means no limit.
- `max_queued`: how many runs wait in the queue at most. 0 means no limit. If several sessions insert runs at the same moment, the queue sometimes holds a few runs more than `max_queued`.

```sql
SELECT oarlock.set_queue('heavy', max_running => 4, max_queued => 10000);
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.drain_worker(worker text) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_workers int;
BEGIN
    WITH asked AS (
        SELECT w.worker_id, w.channel FROM oarlock.workers w
         WHERE (w.name = worker OR w.worker_id::text = worker) AND w.state IN ('live', 'draining')
    ), ordered AS (
        INSERT INTO oarlock.worker_orders (worker_id, desired, by) SELECT a.worker_id, 'draining', oarlock.who() FROM asked a
    ) SELECT count(*), count(pg_notify(a.channel, 'drain')) INTO found_workers FROM asked a;
    RETURN found_workers;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.drain_worker IS $$Asks a worker to finish its tasks and to claim no more runs; for administrators. The argument `worker` is the name or the id of a worker. Returns the number of workers that the call asked.

```sql
SELECT oarlock.drain_worker('w1');
```$$;
-- +goose StatementEnd

-- Upkeep ------------------------------------------------------------------------------------------------------------

-- Deletes finished runs past the retention of their DAG. A child stays until its parent ends, since the parent may still ask
-- for it. Rows that another session holds are skipped, a retry for instance.
-- +goose StatementBegin
CREATE FUNCTION oarlock.prune_runs(batch int) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    gone bigint[];
BEGIN
    SELECT array_agg(r.run_id) INTO gone
      FROM oarlock.dags d
      JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
     CROSS JOIN LATERAL (
           SELECT greatest(CASE WHEN v.retention_days > 0 THEN clock_timestamp() - v.retention_days * interval '1 day' END,
                           CASE WHEN v.retention_runs > 0 THEN (SELECT k.finished_at FROM oarlock.runs k
                                   WHERE k.dag_id = d.dag_id AND k.finished_at IS NOT NULL
                                   ORDER BY k.finished_at DESC OFFSET v.retention_runs - 1 LIMIT 1) END) AS before) keep
     CROSS JOIN LATERAL (
           SELECT o.run_id FROM oarlock.runs o
            WHERE o.dag_id = d.dag_id AND o.finished_at < keep.before
              AND NOT EXISTS (SELECT FROM oarlock.runs p WHERE p.run_id = o.parent_run AND p.finished_at IS NULL)
            ORDER BY o.finished_at LIMIT batch FOR UPDATE SKIP LOCKED) r;
    IF gone IS NULL THEN
        RETURN 0;
    END IF;
    gone := gone[1:batch];
    -- before the rows that name the days of logs, because chunks are found by their day
    DELETE FROM oarlock.log_chunks c
     USING (SELECT t.log_day, t.run_id FROM oarlock.tasks t WHERE t.run_id = ANY (gone) AND t.log_day IS NOT NULL
            UNION SELECT a.log_day, a.run_id FROM oarlock.attempts a WHERE a.run_id = ANY (gone) AND a.log_day IS NOT NULL) x
     WHERE c.log_day = x.log_day AND c.run_id = x.run_id;
    DELETE FROM oarlock.tasks WHERE run_id = ANY (gone);
    DELETE FROM oarlock.attempts WHERE run_id = ANY (gone);
    DELETE FROM oarlock.approvals_open WHERE run_id = ANY (gone);
    DELETE FROM oarlock.controls WHERE run_id = ANY (gone);
    DELETE FROM oarlock.events WHERE run_id = ANY (gone);
    DELETE FROM oarlock.followers WHERE run_id = ANY (gone);
    UPDATE oarlock.run_keys k SET expires_at = k.created_at + interval '7 days'
      FROM oarlock.runs r WHERE r.run_id = ANY (gone) AND k.submitter = r.submitted_by AND k.run_key = r.run_key;
    DELETE FROM oarlock.runs WHERE run_id = ANY (gone);
    RETURN cardinality(gone);
END $$;
-- +goose StatementEnd

-- Deletes the chunks of earlier days in a partition, except chunks of active runs.
-- +goose StatementBegin
CREATE FUNCTION oarlock.thin_logs(part regclass, keep_from date, batch int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DELETE FROM %1$s c WHERE c.ctid = ANY (ARRAY(
        SELECT x.ctid FROM %1$s x
         WHERE x.log_day < $1 AND NOT EXISTS (SELECT FROM oarlock.runs r WHERE r.run_id = x.run_id AND r.finished_at IS NULL) LIMIT $2))', part)
        USING keep_from, batch;
END $$;
-- +goose StatementEnd

-- Drops the partitions of days that are past the retention of every DAG: the DAG that keeps logs longest decides. All logs of an
-- unfinished run stay, however old. So days with such logs are not dropped: only the chunks of other runs are deleted from them. It
-- waits for a reader for lock_timeout at most; the next call tries again.
-- +goose StatementBegin
CREATE FUNCTION oarlock.prune_logs(batch int) RETURNS bigint
LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    keep_from date;
    held      date[];
    part      record;
    dropped   bigint := 0;
BEGIN
    SELECT CASE WHEN bool_and(v.logs_days > 0) IS NOT FALSE THEN (clock_timestamp() AT TIME ZONE 'UTC')::date - coalesce(max(v.logs_days), 14) END INTO keep_from
      FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
     WHERE d.removed_at IS NULL;
    IF keep_from IS NULL THEN
        RETURN 0;
    END IF;
    held := ARRAY(SELECT DISTINCT l.log_day
                    FROM (SELECT r.run_id FROM oarlock.runs r WHERE r.state IN ('running', 'waiting', 'paused')
                          UNION ALL SELECT r.run_id FROM oarlock.runs r WHERE r.state = 'queued' AND r.epoch > 0) active
                   CROSS JOIN LATERAL (
                         SELECT t.log_day FROM oarlock.tasks t WHERE t.run_id = active.run_id
                         UNION ALL SELECT a.log_day FROM oarlock.attempts a WHERE a.run_id = active.run_id) l
                   WHERE l.log_day < keep_from);
    FOR part IN SELECT i.inhrelid::regclass AS name, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
                  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = 'oarlock.log_chunks'::regclass AND c.relname ~ '^log_chunks_[0-9]{8}$'
                   AND to_date(right(c.relname, 8), 'YYYYMMDD') < keep_from ORDER BY c.relname LOOP
        IF part.day = ANY (held) THEN
            PERFORM oarlock.thin_logs(part.name, keep_from, batch);
        ELSE
            EXECUTE format('DROP TABLE %s', part.name);
            dropped := dropped + 1;
        END IF;
    END LOOP;
    PERFORM oarlock.thin_logs('oarlock.log_chunks_default', keep_from, batch);
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END $$;
-- +goose StatementEnd

-- Returns the open lanes in which all runs are over. Lanes that stay are left out.
-- +goose StatementBegin
CREATE FUNCTION oarlock.idle_lanes() RETURNS SETOF int
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT l.lane_id FROM oarlock.lanes l
     WHERE l.closed IS NULL AND NOT l.stays
       AND NOT EXISTS (SELECT FROM oarlock.runs r WHERE r.lane_id = l.lane_id AND r.state = 'queued')
       AND l.lane_id <> ALL (ARRAY(SELECT DISTINCT r.lane_id FROM oarlock.runs r WHERE r.state IN ('running', 'waiting', 'paused')));
END;
-- +goose StatementEnd

-- Closes lanes in which all runs are over: workers do not look there any more, and find_lane does not count them. Deletes a closed
-- lane when all runs are deleted that were there when the lane was closed. A transaction that uses a lane holds the lane FOR KEY
-- SHARE. So prune_lanes first locks the lanes, and then looks for runs again, in a statement that sees the runs committed until then.
-- +goose StatementBegin
CREATE FUNCTION oarlock.prune_lanes() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    idle int[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN; -- the second look would see no more than the first
    END IF;
    idle := ARRAY(SELECT l.lane_id FROM oarlock.lanes l WHERE l.lane_id = ANY (ARRAY(SELECT oarlock.idle_lanes())) FOR UPDATE SKIP LOCKED);
    UPDATE oarlock.lanes l SET closed = coalesce(pg_sequence_last_value('oarlock.runs_run_id_seq'), 0)
     WHERE l.lane_id = ANY (idle) AND l.lane_id = ANY (ARRAY(SELECT oarlock.idle_lanes()));
    DELETE FROM oarlock.lanes l
     WHERE l.lane_id = ANY (ARRAY(SELECT x.lane_id FROM oarlock.lanes x
                                   WHERE x.closed < coalesce((SELECT min(r.run_id) FROM oarlock.runs r), 9223372036854775807) FOR UPDATE SKIP LOCKED));
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.prune(batch int DEFAULT 1000, OUT runs bigint, OUT keys bigint, OUT log_days bigint, OUT workers bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION 'batch is from 1 to 100000, not %', batch USING ERRCODE = 'OA013', HINT = 'call it again until it deletes nothing';
    END IF;
    runs := oarlock.prune_runs(batch);
    DELETE FROM oarlock.run_keys k
     WHERE k.ctid = ANY (ARRAY(SELECT x.ctid FROM oarlock.run_keys x WHERE x.expires_at < clock_timestamp() LIMIT batch));
    GET DIAGNOSTICS keys = ROW_COUNT;
    DELETE FROM oarlock.workers w
     WHERE w.state IN ('lost', 'gone') AND w.ended_at < clock_timestamp() - interval '7 days'
       AND NOT EXISTS (SELECT FROM oarlock.fences f WHERE f.worker_id = w.worker_id)
       AND NOT EXISTS (SELECT FROM oarlock.runs r WHERE r.worker_id = w.worker_id);
    GET DIAGNOSTICS workers = ROW_COUNT;
    DELETE FROM oarlock.worker_orders o WHERE NOT EXISTS (SELECT FROM oarlock.workers w WHERE w.worker_id = o.worker_id);
    DELETE FROM oarlock.followers f WHERE f.until < clock_timestamp();
    DELETE FROM oarlock.cache c -- rows that a flush is about to write anew are locked, and skipped
     WHERE c.ctid = ANY (ARRAY(SELECT x.ctid FROM oarlock.cache x WHERE x.expires_at < clock_timestamp() LIMIT batch FOR UPDATE SKIP LOCKED));
    PERFORM oarlock.prune_fires(batch);
    log_days := oarlock.prune_logs(batch);
    PERFORM oarlock.prune_pool_keys(batch); -- late, since calls that use these keys wait for the end of the transaction
    PERFORM oarlock.prune_lanes(); -- last, since enqueues that use these lanes wait a moment for the end of the transaction
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.prune IS $$Deletes data that is past its retention. Only members of `oarlock_admin` may call `oarlock.prune`. One call deletes at most `batch` runs, so repeat the call until `runs` is 0. A call deletes:

- runs that have ended, and everything that belongs to these runs, by `retention: {days, runs}` of the DAG
- results of fire times, and schedules and backfills that have ended, after the number of `days` in `retention` of the DAG
- run keys that are at least 7 days old, when the run of the key is deleted
- rows of workers that ended more than 7 days ago
- lanes that submitters chose, when all runs of the lane have ended
- what is known of a key of a pool, if the key has no `slots` of its own, is not closed, and its rate is full again
- logs of a run, together with the run
- all logs of a day, when the day is past the `logs_days` of the DAG that keeps logs longest. Logs of a run that has not ended stay

```sql
SELECT runs, keys, log_days FROM oarlock.prune(500);
```$$;
-- +goose StatementEnd

-- Ends the backends that a lost worker left in the database, and returns how many: a backend that holds a fence because its client
-- vanished would hold up the takeover. It ends only backends with the application name of this worker, and only after the worker
-- was found lost. If the owner of this function may not signal them, it does nothing, and TCP keepalives end them.
-- +goose StatementBegin
CREATE FUNCTION oarlock.end_backends(worker uuid) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM oarlock.workers w WHERE w.worker_id = worker AND w.state IN ('lost', 'gone')) THEN
        RETURN 0;
    END IF;
    RETURN (SELECT count(*) FILTER (WHERE pg_terminate_backend(a.pid)) FROM pg_stat_activity a
             WHERE a.datname = current_database() AND a.application_name = 'oarlock/' || worker AND a.pid <> pg_backend_pid());
EXCEPTION WHEN insufficient_privilege THEN
    RETURN 0;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.end_backends IS 'Internal: terminates the connections of a worker that was found lost.';

-- +goose Down
DROP FUNCTION oarlock.end_backends(uuid);
DROP FUNCTION oarlock.prune(int);
DROP FUNCTION oarlock.prune_logs(int);
DROP FUNCTION oarlock.thin_logs(regclass, date, int);
DROP FUNCTION oarlock.prune_runs(int);
DROP FUNCTION oarlock.prune_lanes();
DROP FUNCTION oarlock.idle_lanes();
DROP FUNCTION oarlock.drain_worker(text);
DROP FUNCTION oarlock.set_queue(text, bool, int, int);
DROP FUNCTION oarlock.set_dag(text, bool, bool, int);
DROP FUNCTION oarlock.put_dag(jsonb, text, text, text[], int, bigint, text, bool, jsonb);
DROP FUNCTION oarlock.place_dag(bigint);
DROP FUNCTION oarlock.compile_limits(jsonb);
DROP FUNCTION oarlock.check_spec(jsonb, text[]);
