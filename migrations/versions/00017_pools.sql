-- +goose Up

-- Pools limit for the whole cluster how many bodies are under way at once, how many start in a time, or both. A body that needs a pool
-- starts only while its worker has a permit. A permit belongs to a worker until the worker gives it back or loses its fence, so that a
-- dead worker keeps none.

CREATE TABLE oarlock.pools (
    name         text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    slots        int CHECK (slots BETWEEN 1 AND 1000000), -- for each key, if per_key; null: any number
    per_key      bool   NOT NULL,
    rate         int CHECK (rate BETWEEN 1 AND 1000000), -- starts in rate_ms; null: any number
    rate_ms      bigint CHECK (rate_ms BETWEEN 1 AND 86400000),
    burst        int CHECK (burst BETWEEN 1 AND 1000000), -- starts at once after a quiet time
    note         text   NOT NULL,
    closed_until timestamptz, -- nothing starts before; infinity: until an administrator opens the pool
    closed_by    text,
    set_by       text   NOT NULL,
    set_at       timestamptz NOT NULL,
    CHECK (num_nulls(rate, rate_ms, burst) IN (0, 3) AND num_nonnulls(slots, rate) > 0)
);

-- What is different about one key, and what is left of its rate. A pool that is not per_key has the key ''.
CREATE TABLE oarlock.pool_keys (
    pool         text   NOT NULL REFERENCES oarlock.pools ON DELETE CASCADE,
    key          text   NOT NULL,
    slots        int CHECK (slots BETWEEN 1 AND 1000000), -- null: as the pool
    tokens       float8, -- starts that were left at tokens_at; null: burst
    tokens_at    timestamptz,
    closed_until timestamptz,
    closed_by    text,
    PRIMARY KEY (pool, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The last call of each worker that has used pools. When the fence of the worker goes, this row goes, and all permits of the worker.
CREATE TABLE oarlock.permit_calls (
    worker_id uuid   PRIMARY KEY,
    channel   text   NOT NULL DEFAULT 'permits' CHECK (channel = 'permits'),
    call      bigint NOT NULL,
    FOREIGN KEY (worker_id, channel) REFERENCES oarlock.fences ON DELETE CASCADE
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Permits that workers hold or ask for. A permit of several pools has a row for each, and is granted as a whole.
CREATE TABLE oarlock.permits (
    worker_id     uuid   NOT NULL REFERENCES oarlock.permit_calls ON DELETE CASCADE,
    nth           bigint NOT NULL, -- number that the worker gave it, which never stands for other pools
    pool          text   NOT NULL, -- may be missing in pools: then the worker waits until an administrator makes it
    key           text   NOT NULL,
    weight        int    NOT NULL CHECK (weight > 0),
    run_id        bigint NOT NULL, -- the run that used it last, or asked for it, when the worker called last
    run_priority  int    NOT NULL,
    step_priority int    NOT NULL,
    since         timestamptz NOT NULL DEFAULT clock_timestamp(),
    granted_at    timestamptz, -- null: the worker waits
    PRIMARY KEY (worker_id, nth, pool)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX permits_granted ON oarlock.permits (pool, key) INCLUDE (weight) WHERE granted_at IS NOT NULL;
-- In the order in which waiters are served.
CREATE INDEX permits_waiting ON oarlock.permits (pool, key, run_priority DESC, step_priority DESC, since, worker_id, nth) WHERE granted_at IS NULL;

-- Returns the state of a pool for one key: its slots, how many of these are taken, how many starts the rate allows now, and until when
-- the pool or the key is closed. It returns nulls if there is no such pool. PL/pgSQL keeps its plan from call to call.
-- +goose StatementBegin
CREATE FUNCTION oarlock.pool_state(pool text, key text, OUT slots int, OUT taken bigint, OUT tokens float8, OUT closed_until timestamptz, OUT closed_by text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    SELECT coalesce(k.slots, p.slots),
           (SELECT coalesce(sum(h.weight), 0) FROM oarlock.permits h WHERE h.pool = p.name AND h.key = pool_state.key AND h.granted_at IS NOT NULL),
           CASE WHEN p.rate > 0 THEN
               least(p.burst, k.tokens + greatest(0, extract(epoch FROM clock_timestamp() - k.tokens_at)::float8) * 1000 * p.rate / p.rate_ms) END,
           CASE WHEN greatest(p.closed_until, k.closed_until) > clock_timestamp() THEN greatest(p.closed_until, k.closed_until) END,
           CASE WHEN p.closed_until >= coalesce(k.closed_until, '-infinity') THEN p.closed_by ELSE k.closed_by END
      INTO slots, taken, tokens, closed_until, closed_by
      FROM oarlock.pools p LEFT JOIN oarlock.pool_keys k ON k.pool = p.name AND k.key = pool_state.key WHERE p.name = pool_state.pool;
END $$;
-- +goose StatementEnd

-- Returns a rate as text, in the largest unit that fits: `100 in 1m`, `1 in 1500ms`.
CREATE FUNCTION oarlock.rate_text(rate int, rate_ms bigint) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN rate || ' in ' || CASE WHEN rate_ms % 86400000 = 0 THEN rate_ms / 86400000 || 'd' WHEN rate_ms % 3600000 = 0 THEN rate_ms / 3600000 || 'h'
                              WHEN rate_ms % 60000 = 0 THEN rate_ms / 60000 || 'm' WHEN rate_ms % 1000 = 0 THEN rate_ms / 1000 || 's' ELSE rate_ms || 'ms' END;

-- Returns why a permit that a worker asks for is not granted.
-- +goose StatementBegin
CREATE FUNCTION oarlock.why_no_permit(worker uuid, nth bigint) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    u      record;
    line   text;
    before bigint;
BEGIN
    FOR u IN SELECT p.pool, p.key, p.weight, p.run_priority, p.step_priority, p.since, p.granted_at, s.*, d.name, d.rate, d.rate_ms, d.burst, d.closed_until > clock_timestamp() AS is_shut,
                    format('pool %s', p.pool) || CASE WHEN p.key <> '' THEN format(' (key %s)', left(p.key, 100)) ELSE '' END AS what
               FROM oarlock.permits p CROSS JOIN LATERAL oarlock.pool_state(p.pool, p.key) s LEFT JOIN oarlock.pools d ON d.name = p.pool
              WHERE p.worker_id = why_no_permit.worker AND p.nth = why_no_permit.nth ORDER BY p.pool LOOP
        EXIT WHEN u.granted_at IS NOT NULL;
        -- The first twenty in line are enough for the text.
        before := (SELECT count(*)
                     FROM (SELECT * FROM oarlock.permits o WHERE o.pool = u.pool AND o.key = u.key AND o.granted_at IS NULL
                            ORDER BY o.run_priority DESC, o.step_priority DESC, o.since, o.worker_id, o.nth LIMIT 20) o
                    WHERE (-o.run_priority, -o.step_priority, o.since, o.worker_id, o.nth) < (-u.run_priority, -u.step_priority, u.since, worker, why_no_permit.nth));
        line := coalesce(line, format('waits for %s: %s', u.what, oarlock.in_line(before)));
        IF u.name IS NULL THEN
            RETURN format('waits for pool %s, which does not exist', u.pool);
        ELSIF u.closed_until IS NOT NULL THEN
            RETURN format('waits for %s, which %s closed', CASE WHEN u.is_shut THEN 'pool ' || u.pool ELSE u.what END, u.closed_by) || CASE WHEN u.closed_until < 'infinity' THEN ' until ' || oarlock.utc_text(u.closed_until) ELSE '' END;
        ELSIF least(u.slots, u.burst) < u.weight THEN
            RETURN format('waits for %s of %s, which has only %s', u.weight, u.what, least(u.slots, u.burst));
        ELSIF u.slots - u.taken < u.weight THEN
            RETURN format('waits for %s: %s of %s taken by %s; %s', CASE WHEN u.weight > 1 THEN u.weight || ' of ' ELSE '' END || u.what, u.taken, u.slots,
                oarlock.pool_runs(u.pool, u.key), oarlock.in_line(before));
        ELSIF u.tokens < u.weight THEN
            RETURN format('waits for %s: its rate is %s; %s', u.what, oarlock.rate_text(u.rate, u.rate_ms), oarlock.in_line(before));
        END IF;
    END LOOP;
    RETURN line;
END $$;
-- +goose StatementEnd

-- Returns the runs that have permits of a pool, as text: `runs 41, 42, 44 and 3 more`.
-- +goose StatementBegin
CREATE FUNCTION oarlock.pool_runs(pool text, key text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN (SELECT CASE count(*) WHEN 1 THEN 'run ' ELSE 'runs ' END || string_agg(x.run_id::text, ', ' ORDER BY x.run_id) FILTER (WHERE x.n <= 5)
           || CASE WHEN count(*) > 5 THEN format(' and %s more', count(*) - 5) ELSE '' END
      FROM (SELECT p.run_id, row_number() OVER (ORDER BY p.run_id) AS n FROM oarlock.permits p
             WHERE p.pool = pool_runs.pool AND p.key = pool_runs.key AND p.granted_at IS NOT NULL GROUP BY p.run_id) x);
END $$;
-- +goose StatementEnd

-- Returns whether a pool or one key of it is closed.
-- +goose StatementBegin
CREATE FUNCTION oarlock.is_closed(pool text, key text) RETURNS bool
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT EXISTS (SELECT FROM oarlock.pools p WHERE p.name = is_closed.pool AND p.closed_until > clock_timestamp())
        OR EXISTS (SELECT FROM oarlock.pool_keys k WHERE k.pool = is_closed.pool AND k.key = is_closed.key AND k.closed_until > clock_timestamp());
END;
-- +goose StatementEnd

-- Takes in all permits that a worker wants to keep or to have, and answers which of them it has. What the worker does not name any more
-- is given back, and goes to the workers that wait for it, to the first in order; others than the caller are notified. A call looks only
-- at the places that it gives back or waits for. So a worker that waits has to repeat its call now and then: time refills rates and opens
-- pools, and administrators change them, without a word.
--
-- `call` counts the calls of the worker: a call that comes late, because its connection hung, changes nothing. `held` in a permit says
-- that a body runs by it. If the database has lost such a permit in a failover, the permit comes back, whatever the pool has left.
-- Result: an array of {"n", "granted", "contested", "once", "wait_ms", "reason"}; null if the worker has no fence, or the call is late.
-- +goose StatementBegin
CREATE FUNCTION oarlock.permits(worker uuid, call bigint, wanted jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s'
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    locked     text[];          -- pools
    places     text[];          -- 'pool key' that the caller gave back or waits for
    spent      text[] := '{}';  -- places of which later waiters get nothing
    kept       jsonb  := '{}';  -- how much of a place is kept for waiters that are overdue
    its_pools  text[];
    its_places text[];
    w          record;
    s          record;
BEGIN
    IF num_nulls(worker, call, wanted) > 0 THEN
        RAISE EXCEPTION 'permits: no argument may be null' USING ERRCODE = '22004';
    END IF;
    PERFORM FROM oarlock.fences f WHERE f.worker_id = permits.worker AND f.channel = 'permits' FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO oarlock.permit_calls AS c (worker_id, call) VALUES (permits.worker, permits.call)
    ON CONFLICT (worker_id) DO UPDATE SET call = excluded.call WHERE c.call < excluded.call;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    locked := ARRAY(SELECT x.name
                      FROM (SELECT p.name FROM oarlock.pools p
                             WHERE p.name IN (SELECT p ->> 'pool' FROM jsonb_array_elements(wanted) t, jsonb_array_elements(t -> 'pools') p
                                              UNION SELECT p.pool FROM oarlock.permits p WHERE p.worker_id = permits.worker)
                             ORDER BY p.name FOR NO KEY UPDATE) x);

    WITH back AS (
        DELETE FROM oarlock.permits p
         WHERE p.worker_id = permits.worker AND NOT (p.nth = ANY (ARRAY(SELECT (t ->> 'n')::bigint FROM jsonb_array_elements(wanted) t)))
        RETURNING p.pool, p.key
    )
    SELECT array_agg(DISTINCT b.pool || ' ' || b.key) INTO places FROM back b;
    INSERT INTO oarlock.permits AS h (worker_id, nth, pool, key, weight, run_id, run_priority, step_priority, granted_at)
    SELECT permits.worker, (t ->> 'n')::bigint, p ->> 'pool', CASE WHEN d.per_key IS NOT FALSE THEN coalesce(p ->> 'key', '') ELSE '' END, (p ->> 'weight')::int,
           (t ->> 'run')::bigint, (t ->> 'priority')::int, (t ->> 'step_priority')::int, CASE WHEN (t ->> 'held')::bool THEN clock_timestamp() END
      FROM jsonb_array_elements(wanted) t CROSS JOIN jsonb_array_elements(t -> 'pools') p LEFT JOIN oarlock.pools d ON d.name = p ->> 'pool'
    ON CONFLICT (worker_id, nth, pool) DO UPDATE -- the key changes if the pool was made after the first call
       SET key = excluded.key, run_id = excluded.run_id, run_priority = excluded.run_priority, step_priority = excluded.step_priority, granted_at = coalesce(h.granted_at, excluded.granted_at)
     WHERE (h.key, h.run_id, h.run_priority, h.step_priority, h.granted_at IS NULL)
           IS DISTINCT FROM (excluded.key, excluded.run_id, excluded.run_priority, excluded.step_priority, coalesce(h.granted_at, excluded.granted_at) IS NULL);
    -- FILTER, since WHERE would let the plan read the waiters of all workers.
    places := ARRAY(SELECT unnest(places) UNION
                    SELECT unnest(array_agg(p.pool || ' ' || p.key) FILTER (WHERE p.granted_at IS NULL)) FROM oarlock.permits p WHERE p.worker_id = permits.worker);
    -- A clock that was set back would refill nothing until it is again where it was.
    UPDATE oarlock.pool_keys k SET tokens_at = clock_timestamp()
      FROM unnest(places) o
     WHERE k.pool = split_part(o, ' ', 1) AND k.key = substr(o, strpos(o, ' ') + 1) AND k.tokens_at > clock_timestamp();
    places := ARRAY(SELECT o FROM unnest(places) o CROSS JOIN LATERAL oarlock.pool_state(split_part(o, ' ', 1), substr(o, strpos(o, ' ') + 1)) s
                     WHERE split_part(o, ' ', 1) = ANY (locked) AND s.closed_until IS NULL AND (s.slots - s.taken < 1) IS NOT TRUE AND (s.tokens < 1) IS NOT TRUE);

    FOR w IN SELECT x.worker_id, x.nth, o AS place, x.since < clock_timestamp() - interval '30 seconds' AS is_overdue
               FROM unnest(places) o JOIN oarlock.permits x ON x.pool = split_part(o, ' ', 1) AND x.key = substr(o, strpos(o, ' ') + 1) AND x.granted_at IS NULL
              ORDER BY x.run_priority DESC, x.step_priority DESC, x.since, x.worker_id, x.nth LOOP
        EXIT WHEN places <@ spent;
        CONTINUE WHEN w.place = ANY (spent);
        SELECT array_agg(p.pool) FILTER (WHERE p.granted_at IS NULL), array_agg(p.pool || ' ' || p.key) FILTER (WHERE p.granted_at IS NULL)
          INTO its_pools, its_places FROM oarlock.permits p WHERE p.worker_id = w.worker_id AND p.nth = w.nth;
        CONTINUE WHEN its_places IS NULL OR its_places && spent;
        -- Further pools are locked out of order, so without waiting. While another call has one, the waiter is as if there were no room.
        IF NOT its_pools <@ locked THEN
            locked := locked || ARRAY(SELECT p.name FROM oarlock.pools p WHERE p.name = ANY (its_pools) AND p.name <> ALL (locked) FOR NO KEY UPDATE SKIP LOCKED);
        END IF;
        SELECT bool_or(x.is_shut OR x.weight > x.most) IS TRUE AS is_hopeless, bool_or(x.tokens < x.weight) IS TRUE AS is_slow,
               coalesce(array_agg(x.place) FILTER (WHERE NOT x.is_locked OR least(x.room, x.tokens) < x.weight), '{}') AS lacks,
               coalesce(array_agg(x.place) FILTER (WHERE x.is_shut OR least(x.room, x.tokens) < 1), '{}') AS empty,
               coalesce(jsonb_object_agg(x.place, x.kept + x.weight) FILTER (WHERE x.is_locked AND (least(x.room, x.tokens) < x.weight) IS NOT TRUE), '{}') AS keeps
          INTO s
          FROM (SELECT p.weight, q.place, q.kept, least(f.slots, d.burst) AS most, f.slots - f.taken - q.kept AS room, f.tokens - q.kept AS tokens,
                       d.name IS NULL OR f.closed_until IS NOT NULL OR NOT d.per_key AND p.key <> '' AS is_shut, p.pool = ANY (locked) AS is_locked
                  FROM oarlock.permits p
                 CROSS JOIN LATERAL (SELECT p.pool || ' ' || p.key AS place, coalesce((kept ->> (p.pool || ' ' || p.key))::bigint, 0) AS kept) q
                 CROSS JOIN LATERAL oarlock.pool_state(p.pool, p.key) f
                  LEFT JOIN oarlock.pools d ON d.name = p.pool
                 WHERE p.worker_id = w.worker_id AND p.nth = w.nth) x;
        spent := spent || s.empty;
        CONTINUE WHEN s.is_hopeless;
        IF s.lacks <> '{}' THEN
            -- Where a waiter that is overdue lacks something, all that comes free is for it. Where it lacks nothing, its weight is kept,
            -- unless it waits for a rate: a rate comes with time, and others may use the rest meanwhile.
            IF w.is_overdue THEN
                spent := spent || s.lacks;
                kept := kept || CASE WHEN s.is_slow THEN '{}' ELSE s.keeps END;
            END IF;
            CONTINUE;
        END IF;
        -- The lock keeps the fence. A worker that is being lost gets nothing: its permits are deleted already, or are about to be.
        PERFORM FROM oarlock.permit_calls c WHERE c.worker_id = w.worker_id FOR KEY SHARE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        INSERT INTO oarlock.pool_keys AS k (pool, key, tokens, tokens_at)
        SELECT p.pool, p.key, s.tokens - p.weight, clock_timestamp()
          FROM oarlock.permits p CROSS JOIN LATERAL oarlock.pool_state(p.pool, p.key) s WHERE p.worker_id = w.worker_id AND p.nth = w.nth AND s.tokens IS NOT NULL
        ON CONFLICT (pool, key) DO UPDATE SET tokens = excluded.tokens, tokens_at = excluded.tokens_at;
        UPDATE oarlock.permits p SET granted_at = clock_timestamp() WHERE p.worker_id = w.worker_id AND p.nth = w.nth;
        IF w.worker_id <> permits.worker THEN
            PERFORM pg_notify(o.channel, 'permits') FROM oarlock.workers o WHERE o.worker_id = w.worker_id;
        END IF;
    END LOOP;

    RETURN (SELECT coalesce(jsonb_agg(jsonb_build_object('n', x.nth, 'granted', x.is_granted, 'contested', x.is_contested, 'once', x.once, 'wait_ms', x.wait_ms,
                       'reason', CASE WHEN NOT x.is_granted AND x.since < clock_timestamp() - interval '900 milliseconds' THEN oarlock.why_no_permit(permits.worker, x.nth) END)
                       ORDER BY x.nth), '[]')
              FROM (SELECT p.nth, bool_and(p.granted_at IS NOT NULL) AS is_granted, min(p.since) AS since, bool_or(d.rate IS NOT NULL OR oarlock.is_closed(p.pool, p.key)) AS once,
                           bool_or(EXISTS (SELECT FROM oarlock.permits o WHERE o.pool = p.pool AND o.key = p.key AND o.granted_at IS NULL AND o.worker_id <> p.worker_id)) AS is_contested,
                           max(CASE WHEN p.granted_at IS NULL AND d.rate IS NOT NULL THEN
                                   (SELECT ceil((p.weight - f.tokens) * d.rate_ms / d.rate)::bigint FROM oarlock.pool_state(p.pool, p.key) f WHERE f.tokens < p.weight) END) AS wait_ms
                      FROM oarlock.permits p LEFT JOIN oarlock.pools d ON d.name = p.pool
                     WHERE p.worker_id = permits.worker GROUP BY p.nth) x);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.permits IS 'Internal: gives permits of pools back, and asks for some.';

-- Closes keys of pools for a while, an hour at most, because a service wants no more requests: of pools with a rate or with keys. A key
-- that is closed for longer stays so.
-- +goose StatementBegin
CREATE FUNCTION oarlock.leave_alone(run bigint, pools text[], keys text[], pause interval) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s'
BEGIN ATOMIC
    SELECT FROM oarlock.pools p WHERE p.name = ANY (leave_alone.pools) ORDER BY p.name FOR NO KEY UPDATE; -- as oarlock.permits: the two never deadlock
    INSERT INTO oarlock.pool_keys AS k (pool, key, closed_until, closed_by)
    SELECT p.name, u.key, clock_timestamp() + least(leave_alone.pause, interval '1 hour'), 'run ' || leave_alone.run
      FROM unnest(leave_alone.pools, leave_alone.keys) n (pool, key) JOIN oarlock.pools p ON p.name = n.pool
     CROSS JOIN LATERAL (SELECT CASE WHEN p.per_key THEN coalesce(n.key, '') ELSE '' END AS key) u
     WHERE p.rate IS NOT NULL OR p.per_key
    ON CONFLICT (pool, key) DO UPDATE SET closed_until = excluded.closed_until, closed_by = excluded.closed_by
     WHERE (k.closed_until >= excluded.closed_until) IS NOT TRUE;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.leave_alone IS 'Internal: closes pools for a service that wants no more requests.';

-- Raises OA013 if a DAG uses a pool that does not exist, needs more of it than it has, or counts otherwise than it. pools: for each
-- name the largest `weight`, whether a step gives a `key`, and whether one gives none: `bare`.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_pools(dag text, pools jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    u record;
BEGIN
    IF jsonb_typeof(pools) IS DISTINCT FROM 'object' OR EXISTS (SELECT FROM jsonb_each(pools) e WHERE (e.value ->> 'weight' ~ '^[1-9][0-9]{0,5}$|^1000000$') IS NOT TRUE) THEN
        RAISE EXCEPTION 'dag %: these are no pools: %', dag, left(pools::text, 200) USING ERRCODE = 'OA013', HINT = 'put the DAG with `oarlock dag apply`, which checks the file';
    END IF;
    PERFORM FROM oarlock.pools p WHERE p.name IN (SELECT jsonb_object_keys(pools)) ORDER BY p.name FOR KEY SHARE; -- set_pool and remove_pool wait until the DAG is there
    FOR u IN SELECT e.key AS pool, (e.value ->> 'weight')::int AS weight, (e.value ->> 'key')::bool AS by_key, (e.value ->> 'bare')::bool AS bare, p.*
               FROM jsonb_each(pools) e LEFT JOIN oarlock.pools p ON p.name = e.key ORDER BY e.key LOOP
        IF u.name IS NULL THEN
            RAISE EXCEPTION 'dag % uses pool %, which does not exist', dag, u.pool USING ERRCODE = 'OA013', HINT = format('make it: oarlock pools set %s --slots N', u.pool);
        ELSIF u.slots < u.weight OR u.burst < u.weight THEN
            RAISE EXCEPTION 'dag % has a step that needs % of pool %, which has only %', dag, u.weight, u.pool, least(u.slots, u.burst)
                USING ERRCODE = 'OA013', HINT = format('lower the weight of the step, or enlarge the pool: oarlock pools set %s --slots %s', u.pool, u.weight);
        ELSIF u.by_key AND NOT u.per_key THEN
            RAISE EXCEPTION 'dag % has a step with a key for pool %, which counts all steps together', dag, u.pool
                USING ERRCODE = 'OA013', HINT = 'leave the key out, or set the pool again with --per-key';
        ELSIF u.bare AND u.per_key THEN
            RAISE EXCEPTION 'dag % has a step without a key for pool %, which counts by key', dag, u.pool
                USING ERRCODE = 'OA013', HINT = format('give the step a key: pool: {name: %s, key: ''${params.NAME}''}', u.pool);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Returns a pool, locked, or raises OA013 if there is none of this name.
-- +goose StatementBegin
CREATE FUNCTION oarlock.lock_pool(pool text) RETURNS oarlock.pools
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p oarlock.pools;
BEGIN
    SELECT * INTO p FROM oarlock.pools x WHERE x.name = pool FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no pool %', coalesce(left(pool, 100), 'null') USING ERRCODE = 'OA013', HINT = 'list the pools: oarlock pools';
    END IF;
    RETURN p;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.set_pool(pool text, slots int DEFAULT NULL, per_key bool DEFAULT false, rate int DEFAULT NULL, per interval DEFAULT NULL, burst int DEFAULT NULL,
    note text DEFAULT '', OUT is_new bool)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    millis  bigint := round(extract(epoch FROM per) * 1000);
    at_once int := CASE WHEN set_pool.rate > 0 THEN coalesce(set_pool.burst, least(greatest(ceil(set_pool.rate * 250.0 / nullif(millis, 0)), 1), 1000000)) END;
    most    int := least(set_pool.slots, at_once);
    was     oarlock.pools;
    needy   text;
BEGIN
    IF coalesce(pool, '') !~ '^[a-z0-9][a-z0-9._-]{0,99}$' THEN
        RAISE EXCEPTION '% is no name for a pool', coalesce(quote_literal(left(pool, 120)), 'null') USING ERRCODE = 'OA013',
            HINT = 'use small letters, digits, and . _ - behind the first character; at most 100';
    ELSIF octet_length(set_pool.note) > 1000 THEN
        RAISE EXCEPTION 'the note of pool % has % bytes, at most 1000', pool, octet_length(set_pool.note) USING ERRCODE = 'OA012', HINT = 'shorten it';
    ELSIF num_nonnulls(set_pool.slots, set_pool.rate) = 0 THEN
        RAISE EXCEPTION 'pool % limits nothing', pool USING ERRCODE = 'OA013', HINT = 'give it slots, a rate, or both';
    ELSIF set_pool.slots NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'pool % cannot have % slots', pool, set_pool.slots USING ERRCODE = 'OA013',
            HINT = 'a pool has 1 to 1000000 slots; to let nothing start, close it: oarlock pools close ' || pool;
    ELSIF num_nulls(set_pool.rate, millis) = 1 OR set_pool.rate IS NULL AND set_pool.burst IS NOT NULL THEN
        RAISE EXCEPTION 'the rate of pool % is incomplete', pool USING ERRCODE = 'OA013', HINT = 'give a number and a time; burst only beside them: rate => 100, per => ''1 minute'', burst => 20';
    ELSIF set_pool.rate NOT BETWEEN 1 AND 1000000 OR millis NOT BETWEEN 1 AND 86400000 OR set_pool.burst NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'pool % cannot have this rate', pool USING ERRCODE = 'OA013', HINT = 'a rate is 1 to 1000000 starts in 1 millisecond to 1 day; burst is 1 to 1000000';
    END IF;
    INSERT INTO oarlock.pools (name, per_key, slots, note, set_by, set_at) VALUES (pool, coalesce(set_pool.per_key, false), 1, '', '', clock_timestamp())
    ON CONFLICT DO NOTHING;
    is_new := FOUND;
    was := oarlock.lock_pool(pool);
    IF was.per_key <> coalesce(set_pool.per_key, false) AND EXISTS (SELECT FROM oarlock.permits h WHERE h.pool = set_pool.pool) THEN
        RAISE EXCEPTION 'pool % is in use, so it cannot begin or cease to count by key', pool USING ERRCODE = 'OA013', HINT = 'make another pool';
    END IF;
    SELECT d.name INTO needy FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
     WHERE d.removed_at IS NULL AND (v.pools -> pool ->> 'weight')::int > most ORDER BY d.name LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'dag % has a step that needs more of pool % at once', needy, pool USING ERRCODE = 'OA013',
            HINT = 'lower the weight of the step first; to let nothing start: oarlock pools close ' || pool;
    END IF;
    SELECT d.name INTO needy FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
     WHERE d.removed_at IS NULL AND (v.pools -> pool ->> CASE WHEN set_pool.per_key THEN 'bare' ELSE 'key' END)::bool ORDER BY d.name LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'dag % has a step % a key for pool %', needy, CASE WHEN set_pool.per_key THEN 'without' ELSE 'with' END, pool
            USING ERRCODE = 'OA013', HINT = 'set the pool as before, or change the step first: oarlock dag apply FILE';
    END IF;
    UPDATE oarlock.pools p
       SET slots = set_pool.slots, per_key = coalesce(set_pool.per_key, false), rate = set_pool.rate, rate_ms = millis,
           burst = at_once, note = coalesce(set_pool.note, ''), set_by = oarlock.who(), set_at = clock_timestamp()
     WHERE p.name = pool;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.set_pool IS $$Makes a pool, or changes it, and returns whether the pool is new; for administrators. A pool limits the steps that name it, for the whole cluster.

An argument that you leave out takes its default: the call sets the whole pool. If a pool becomes smaller than what runs, nothing is ended, and nothing starts until enough has ended. OA013 refuses a size below the weight of a step that a current DAG has.

- `slots`: how many bodies run at once, each counted by its `weight`. NULL means any number, if the pool has a rate.
- `per_key`: if true, `slots` and `rate` hold for each key that steps give.
- `rate`, `per`: how many bodies start in a time, such as 100 in one minute, each counted by its `weight`.
- `burst`: how many bodies start at once after a quiet time. The default is what the rate allows in a quarter of a second, and at least 1. A worker asks four times a second at most, so a smaller `burst` may let fewer bodies start than the rate.

```sql
SELECT oarlock.set_pool('heavy', slots => 5);
SELECT oarlock.set_pool('crm', slots => 2, per_key => true, rate => 100, per => '1 minute', burst => 20);
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.set_pool_key(pool text, key text, slots int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    p oarlock.pools := oarlock.lock_pool(pool);
BEGIN
    PERFORM oarlock.check_pool_key(p, set_pool_key.key);
    IF set_pool_key.slots NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'key % of pool % cannot have % slots', left(set_pool_key.key, 100), pool, set_pool_key.slots USING ERRCODE = 'OA013',
            HINT = format('a key has 1 to 1000000 slots; to let nothing start: oarlock pools close %s --key %s', pool, quote_literal(set_pool_key.key));
    END IF;
    INSERT INTO oarlock.pool_keys AS k (pool, key, slots) VALUES (set_pool_key.pool, set_pool_key.key, set_pool_key.slots)
    ON CONFLICT (pool, key) DO UPDATE SET slots = excluded.slots;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.set_pool_key IS $$Gives one key of a pool another number of slots; for administrators. NULL gives it the number of the pool again.

```sql
SELECT oarlock.set_pool_key('crm', 'acme', slots => 10);
```$$;
-- +goose StatementEnd

-- Raises OA013 if a pool does not count by this key.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_pool_key(p oarlock.pools, key text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT p.per_key THEN
        RAISE EXCEPTION 'pool % has no keys', p.name USING ERRCODE = 'OA013', HINT = 'leave the key out, or set the pool with --per-key';
    ELSIF octet_length(key) BETWEEN 1 AND 200 IS NOT TRUE THEN
        RAISE EXCEPTION 'a key has 1 to 200 bytes' USING ERRCODE = 'OA013', HINT = 'list the keys in use: oarlock pools show ' || p.name;
    END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.close_pool(pool text, key text DEFAULT NULL, until timestamptz DEFAULT 'infinity') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    p oarlock.pools := oarlock.lock_pool(pool);
BEGIN
    IF close_pool.until IS NULL OR close_pool.until < 'infinity' AND NOT oarlock.is_in_known_years(close_pool.until) THEN
        RAISE EXCEPTION 'pool % cannot be closed until %', pool, close_pool.until USING ERRCODE = 'OA013', HINT = 'give a time, or leave it out: the pool then stays closed until you open it';
    ELSIF close_pool.key IS NULL THEN
        UPDATE oarlock.pools x SET closed_until = close_pool.until, closed_by = oarlock.who() WHERE x.name = pool;
    ELSE
        PERFORM oarlock.check_pool_key(p, close_pool.key);
        INSERT INTO oarlock.pool_keys AS k (pool, key, closed_until, closed_by) VALUES (close_pool.pool, close_pool.key, close_pool.until, oarlock.who())
        ON CONFLICT (pool, key) DO UPDATE SET closed_until = excluded.closed_until, closed_by = excluded.closed_by;
    END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.close_pool IS $$Closes a pool, or one key of it, so that no body starts in it; for administrators. Bodies that run go on.

Without `until`, the pool stays closed until you call `oarlock.open_pool`.

```sql
SELECT oarlock.close_pool('crm', key => 'acme', until => clock_timestamp() + interval '10 minutes');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.open_pool(pool text, key text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    p oarlock.pools := oarlock.lock_pool(pool);
BEGIN
    IF open_pool.key IS NULL THEN
        UPDATE oarlock.pools x SET closed_until = NULL, closed_by = NULL WHERE x.name = pool;
        UPDATE oarlock.pool_keys k SET closed_until = NULL, closed_by = NULL WHERE k.pool = open_pool.pool AND k.key = ''; -- closed by a run
    ELSE
        PERFORM oarlock.check_pool_key(p, open_pool.key);
        UPDATE oarlock.pool_keys k SET closed_until = NULL, closed_by = NULL WHERE k.pool = open_pool.pool AND k.key = open_pool.key;
    END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.open_pool IS $$Opens a pool that is closed, or one key of it; for administrators. A key stays closed if the whole pool is.

```sql
SELECT oarlock.open_pool('crm', key => 'acme');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.remove_pool(pool text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    p     oarlock.pools := oarlock.lock_pool(pool);
    needy text;
BEGIN
    SELECT d.name INTO needy FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
     WHERE d.removed_at IS NULL AND v.pools ? pool ORDER BY d.name LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'dag % uses pool %', needy, pool USING ERRCODE = 'OA013', HINT = 'remove the pool from its steps first: oarlock dag apply FILE';
    ELSIF EXISTS (SELECT FROM oarlock.permits h WHERE h.pool = remove_pool.pool) THEN
        RAISE EXCEPTION 'pool % is in use', pool USING ERRCODE = 'OA013', HINT = 'wait for the runs that use it: oarlock pools show ' || pool;
    END IF;
    DELETE FROM oarlock.pools x WHERE x.name = pool;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.remove_pool IS $$Removes a pool; for administrators. OA013 refuses it while a current DAG names the pool, or a run uses it.

```sql
SELECT oarlock.remove_pool('crm');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.pool_list(pool text DEFAULT NULL)
RETURNS TABLE (name text, slots int, per_key bool, rate int, per interval, burst int, taken bigint, waiting bigint, oldest_since timestamptz, keys bigint,
    closed_until timestamptz, closed_by text, note text, set_by text, set_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT p.name, p.slots, p.per_key, p.rate, p.rate_ms * interval '1 millisecond', p.burst,
           coalesce(h.taken, 0), coalesce(h.waiting, 0), h.oldest_since, coalesce(h.keys, 0),
           s.closed_until, CASE WHEN s.closed_until IS NOT NULL THEN s.closed_by END, p.note, p.set_by, p.set_at
      FROM oarlock.pools p
     CROSS JOIN LATERAL oarlock.pool_state(p.name, '') s -- key '': the whole pool, unless it counts by key
      LEFT JOIN (SELECT h.pool, sum(h.weight) FILTER (WHERE h.granted_at IS NOT NULL) AS taken, count(*) FILTER (WHERE h.granted_at IS NULL) AS waiting,
                        min(h.since) FILTER (WHERE h.granted_at IS NULL) AS oldest_since, count(DISTINCT h.key) AS keys
                   FROM oarlock.permits h GROUP BY h.pool) h ON h.pool = p.name
     WHERE pool_list.pool IS NULL OR p.name = pool_list.pool ORDER BY p.name;
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.pool_list IS $$Lists the pools, or the one named `pool`: their limits, how much of them is taken, how many permits workers wait for, and since when.

A worker asks for a few permits more than it has free slots, so `waiting` does not count all tasks that wait.

```sql
SELECT name, slots, taken, waiting, closed_until FROM oarlock.pool_list();
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.pool_permits(pool text, key text DEFAULT NULL, rows int DEFAULT 100)
RETURNS TABLE (key text, worker text, run bigint, dag text, weight int, since timestamptz, granted_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT p.key, w.name, p.run_id, d.name, p.weight, p.since, p.granted_at
      FROM oarlock.permits p
      LEFT JOIN oarlock.workers w USING (worker_id)
      LEFT JOIN oarlock.runs r USING (run_id)
      LEFT JOIN oarlock.dags d USING (dag_id)
     WHERE p.pool = pool_permits.pool AND (pool_permits.key IS NULL OR p.key = pool_permits.key)
     ORDER BY p.granted_at IS NULL, p.granted_at, p.run_priority DESC, p.step_priority DESC, p.since, p.worker_id, p.nth
     LIMIT oarlock.check_rows(pool_permits.rows, 100);
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.pool_permits IS $$Lists the permits of a pool: first the ones that workers have, and then the ones that workers wait for, in the order in which they are served.

`granted_at` is NULL while a worker waits.

```sql
SELECT key, worker, run, weight, granted_at FROM oarlock.pool_permits('heavy');
```$$;
-- +goose StatementEnd

-- Deletes keys that are as if they had no row: without slots of their own, not closed, and with all of their burst. It waits for no call,
-- since a call may hold one key and want another.
-- +goose StatementBegin
CREATE FUNCTION oarlock.prune_pool_keys(batch int) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM oarlock.pool_keys k
     WHERE k.ctid = ANY (ARRAY(SELECT x.ctid FROM oarlock.pool_keys x JOIN oarlock.pools p ON p.name = x.pool
                                WHERE x.slots IS NULL AND (x.closed_until > clock_timestamp()) IS NOT TRUE
                                  AND (x.tokens + extract(epoch FROM clock_timestamp() - x.tokens_at)::float8 * 1000 * p.rate / p.rate_ms < p.burst) IS NOT TRUE
                                LIMIT batch FOR UPDATE OF x SKIP LOCKED));
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION oarlock.prune_pool_keys(int);
DROP FUNCTION oarlock.pool_permits(text, text, int);
DROP FUNCTION oarlock.pool_list(text);
DROP FUNCTION oarlock.remove_pool(text);
DROP FUNCTION oarlock.open_pool(text, text);
DROP FUNCTION oarlock.close_pool(text, text, timestamptz);
DROP FUNCTION oarlock.set_pool_key(text, text, int);
DROP FUNCTION oarlock.check_pool_key(oarlock.pools, text);
DROP FUNCTION oarlock.set_pool(text, int, bool, int, interval, int, text);
DROP FUNCTION oarlock.lock_pool(text);
DROP FUNCTION oarlock.check_pools(text, jsonb);
DROP FUNCTION oarlock.leave_alone(bigint, text[], text[], interval);
DROP FUNCTION oarlock.permits(uuid, bigint, jsonb);
DROP FUNCTION oarlock.is_closed(text, text);
DROP FUNCTION oarlock.why_no_permit(uuid, bigint);
DROP FUNCTION oarlock.pool_runs(text, text);
DROP FUNCTION oarlock.rate_text(int, bigint);
DROP FUNCTION oarlock.pool_state(text, text);
DROP TABLE oarlock.permits, oarlock.permit_calls, oarlock.pool_keys, oarlock.pools;
