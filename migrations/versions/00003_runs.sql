-- +goose Up

-- Registered work ---------------------------------------------------------------------------------------------

CREATE TABLE oarlock.queues (
    name        text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    paused_by   text,
    paused_at   timestamptz,
    max_running int NOT NULL DEFAULT 0 CHECK (max_running >= 0), -- 0 = no limit
    max_queued  int NOT NULL DEFAULT 0 CHECK (max_queued >= 0),
    CHECK ((paused_by IS NULL) = (paused_at IS NULL))
);
INSERT INTO oarlock.queues (name) VALUES ('default');

-- A lane is a queue, a priority and a set of demands. A worker decides by lane, never by run, whether it may serve its runs.
-- Runs have no foreign key to it, because that would lock its row once per enqueue. Lanes of runs that override nothing stay. A
-- transaction that uses any other lane locks its row FOR KEY SHARE, so that prune closes no lane that gets a run.
CREATE TABLE oarlock.lanes (
    lane_id  int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue    text   NOT NULL REFERENCES oarlock.queues,
    priority int    NOT NULL CHECK (priority BETWEEN -100 AND 100),
    selector jsonb  NOT NULL,
    needs    text[] NOT NULL, -- sorted
    slots    int    NOT NULL CHECK (slots > 0), -- slots of the widest step
    dag_id   bigint NOT NULL DEFAULT 0, -- a DAG that has this lane to itself, because it limits its runs or was paused once; else 0
    keyed    bool   NOT NULL DEFAULT false, -- its runs have limit_keys, and are claimed key by key
    made_for bigint, -- above 0: a submitter of a run of this DAG asked for it; 0: a version of a DAG, or an operator; null: made for runs that wait while their DAG is paused or limited
    twin     int    NOT NULL DEFAULT 0, -- above 0: made while another transaction made the same lane, and stayed open
    stays    bool   NOT NULL DEFAULT false, -- runs of a DAG that override nothing go here, or went here once: enqueue has the number from the DAG
    closed   bigint, -- the last run_id when no run in it was left to be over: workers do not look here; null: it is open
    UNIQUE (queue, priority, selector, needs, slots, dag_id, keyed, twin)
);

CREATE TABLE oarlock.dags (
    dag_id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name            text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    current_version int NOT NULL CHECK (current_version > 0),
    oldest_version  int NOT NULL DEFAULT 1 CHECK (oldest_version > 0), -- older versions are retired: no new run of them starts
    max_active_runs int NOT NULL DEFAULT 0 CHECK (max_active_runs >= 0),
    paused_by       text,
    paused_at       timestamptz,
    removed_at      timestamptz,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The columns from here on are copied from the current version, in the statement that makes it current: each further
    -- table that enqueue would read costs it more than an index of runs.
    current_queue   text REFERENCES oarlock.queues,
    current_lane    int,
    current_names   text[],
    current_ok      jsonpath,
    current_whole   bool,
    current_labels  jsonb,
    current_timeout interval, -- how long a run may wait in the queue
    current_by      text, -- the login that put it, which submits the runs of its schedules
    current_grants  bool, -- whether submitters may have schedules
    current_pools   text[] NOT NULL DEFAULT '{}', -- pools that each step needs with which a run begins; such a DAG has lanes of its own
    current_limits  jsonb, -- the limit by key, as put_dag compiled it: [{"limit": 3, "mark": …, "key": [{"text": …} | {"param": …} | {"label": …}]}]; null: none
    CHECK ((paused_by IS NULL) = (paused_at IS NULL))
);

-- The columns that enqueue needs are taken out of spec once, when the version is put, so that an insert stays cheap.
CREATE TABLE oarlock.dag_versions (
    dag_id           bigint NOT NULL REFERENCES oarlock.dags,
    version          int    NOT NULL CHECK (version > 0),
    spec             jsonb  NOT NULL,
    source           text   NOT NULL,
    source_path      text,
    hash             text   NOT NULL,
    needs            text[] NOT NULL, -- the offers that a worker must have
    max_slots        int    NOT NULL CHECK (max_slots > 0), -- slots of the widest step
    pools            jsonb  NOT NULL, -- {pool: {"weight", "key", "first"}} for each pool that steps name, see put_dag
    queue            text   NOT NULL REFERENCES oarlock.queues,
    priority         int    NOT NULL CHECK (priority BETWEEN -100 AND 100),
    selector         jsonb  NOT NULL CHECK (jsonb_typeof(selector) = 'object'),
    allow_queue      bool   NOT NULL,
    allow_priority   bool   NOT NULL,
    allow_selector   bool   NOT NULL,
    params           jsonb  NOT NULL CHECK (jsonb_typeof(params) = 'array'),
    param_names      text[] NOT NULL,
    params_ok        jsonpath NOT NULL, -- true of params that need no further check
    params_whole     bool   NOT NULL,   -- some params are integers
    labels           jsonb  NOT NULL CHECK (jsonb_typeof(labels) = 'object'),
    precomputable    text[] NOT NULL,
    lane_id          int    NOT NULL REFERENCES oarlock.lanes, -- the lane of runs that override nothing
    queue_timeout_ms bigint NOT NULL DEFAULT 0 CHECK (queue_timeout_ms >= 0),
    max_drives       int    NOT NULL CHECK (max_drives > 0),
    retention_days   int    NOT NULL DEFAULT 30 CHECK (retention_days >= 0), -- 0 = no bound
    retention_runs   int    NOT NULL DEFAULT 0 CHECK (retention_runs >= 0),
    logs_days        int    NOT NULL DEFAULT 14 CHECK (logs_days >= 0),
    put_by           text   NOT NULL,
    put_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (dag_id, version)
);

-- Runs ----------------------------------------------------------------------------------------------------------

-- Returns whether a run is consistent. Postgres parses the text of each CHECK anew in every statement: as fourteen of them this
-- took as long as all the rest of an INSERT of one row, indexes and commit included; as a function it is compiled once a
-- session. Operators are qualified, because the function runs with the search_path of the session that writes the run.
-- +goose StatementBegin
CREATE FUNCTION oarlock.is_sound(state text, trigger text, params jsonb, labels jsonb, depth int, epoch int, generation int, losses int,
    claim_id uuid, worker_id uuid, stage smallint, ready_at timestamptz, wake_at timestamptz, finished_at timestamptz) RETURNS bool
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE
        WHEN state OPERATOR(pg_catalog.=) 'queued' THEN claim_id IS NULL AND ready_at IS NOT NULL AND finished_at IS NULL
            AND (wake_at IS NULL OR stage OPERATOR(pg_catalog.=) 1)
        WHEN state OPERATOR(pg_catalog.=) 'running' THEN claim_id IS NOT NULL AND wake_at IS NULL AND finished_at IS NULL
        WHEN state OPERATOR(pg_catalog.=) 'paused' THEN wake_at IS NULL AND finished_at IS NULL
        WHEN state OPERATOR(pg_catalog.=) 'waiting' THEN claim_id IS NULL AND finished_at IS NULL
        WHEN state OPERATOR(pg_catalog.=) ANY ('{succeeded,failed,canceled}') THEN claim_id IS NULL AND wake_at IS NULL AND finished_at IS NOT NULL
        ELSE false END
        AND (claim_id IS NULL) OPERATOR(pg_catalog.=) (worker_id IS NULL)
        AND stage OPERATOR(pg_catalog.>=) 0 AND stage OPERATOR(pg_catalog.<=) 2
        AND trigger OPERATOR(pg_catalog.=) ANY ('{manual,sql,child,retry,schedule,backfill}')
        AND pg_catalog.jsonb_typeof(params) OPERATOR(pg_catalog.=) 'object' AND pg_catalog.jsonb_typeof(labels) OPERATOR(pg_catalog.=) 'object'
        AND depth OPERATOR(pg_catalog.>=) 0 AND depth OPERATOR(pg_catalog.<=) 100
        AND epoch OPERATOR(pg_catalog.>=) 0 AND generation OPERATOR(pg_catalog.>) 0 AND losses OPERATOR(pg_catalog.>=) 0;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.is_sound IS 'Internal: what is true of every run.';

-- Returns a UUID of version 7: the time in milliseconds, then 74 random bits. Postgres has a function for it since version 18
-- only.
CREATE FUNCTION oarlock.new_uid() RETURNS uuid
LANGUAGE sql VOLATILE
RETURN (lpad(to_hex((date_part('epoch', clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || right(gen_random_uuid()::text, 21))::uuid;
COMMENT ON FUNCTION oarlock.new_uid IS 'Internal: an id that no installation gives twice.';

CREATE TABLE oarlock.runs (
    run_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid            uuid   NOT NULL DEFAULT oarlock.new_uid(), -- never changes. Names for other systems are made of it, because run_ids come again after a restore
    dag_id         bigint NOT NULL,
    version        int    NOT NULL,
    lane_id        int    NOT NULL,
    state          text   NOT NULL DEFAULT 'queued', -- running, waiting, paused, succeeded, failed, canceled
    reason         text   NOT NULL DEFAULT '',
    params         jsonb  NOT NULL DEFAULT '{}',
    labels         jsonb  NOT NULL DEFAULT '{}',
    precomputed    jsonb,
    run_at         timestamptz NOT NULL,
    logical_at     timestamptz NOT NULL,
    trigger        text   NOT NULL, -- manual, sql, child, retry, schedule, backfill
    schedule_id    bigint,      -- the schedule that made this run, or the run that it repeats
    schedule       text,        -- its name
    previous_at    timestamptz, -- the time before its logical_at, by the times of that schedule
    parent_run     bigint,
    parent_step    int,
    parent_item    text,
    parent_alt     int,
    root_id        bigint NOT NULL,
    depth          int    NOT NULL DEFAULT 0,
    retry_of       bigint,
    submitted_by   text   NOT NULL,
    run_key        text,
    traceparent    text,
    claim_id       uuid,
    worker_id      uuid,
    epoch          int    NOT NULL DEFAULT 0,
    generation     int    NOT NULL DEFAULT 1,
    losses         int    NOT NULL DEFAULT 0,
    inbox          bigint NOT NULL DEFAULT 0,
    wake_at        timestamptz, -- the next moment at which it needs a worker, while it is parked or waits for a slot; null: none
    stage          smallint NOT NULL DEFAULT 2, -- place in the queue: 0 it has begun and may need no slot, since something happened to it; 1 it has begun and wants a slot; 2 it is new
    ready_at       timestamptz, -- its place among the runs of its lane and stage; null: it was never queued
    queue_deadline timestamptz, -- the run must begin by then; without effect once it has begun
    limit_keys     text[] COLLATE "C", -- its key for the limit by key, one element; a null element: it passes the limit, since an ancestor counts; null: its lane is not keyed
    -- from here to counts: state of the run that package dagrun keeps, in its own terms
    ending         text   NOT NULL DEFAULT '',
    ending_by      text   NOT NULL DEFAULT '',
    ending_text    text   NOT NULL DEFAULT '',
    paused_by      text   NOT NULL DEFAULT '',
    deadline       timestamptz,
    left_ms        bigint NOT NULL DEFAULT 0,
    tolerated      int    NOT NULL DEFAULT 0,
    counts         jsonb,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at     timestamptz,
    finished_at    timestamptz,
    CONSTRAINT runs_sound CHECK (oarlock.is_sound(state, trigger, params, labels, depth, epoch, generation, losses, claim_id, worker_id,
                                                  stage, ready_at, wake_at, finished_at))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

-- The queue. A shelf of it is a lane and a stage.
CREATE INDEX runs_queued   ON oarlock.runs (lane_id, stage, ready_at, run_id) WHERE state = 'queued';
-- Runs that wait for a limit by key to have room, and runs that count against one: from their first start to their end.
CREATE INDEX runs_keyed    ON oarlock.runs (lane_id, (limit_keys[1]), ready_at, run_id) WHERE limit_keys IS NOT NULL AND state = 'queued' AND stage = 2;
CREATE INDEX runs_counted  ON oarlock.runs (dag_id, (limit_keys[1]), run_id)
    WHERE limit_keys IS NOT NULL AND finished_at IS NULL AND (worker_id IS NOT NULL OR epoch > 0 AND stage < 2);
CREATE INDEX runs_worker   ON oarlock.runs (worker_id) WHERE worker_id IS NOT NULL;
CREATE INDEX runs_wake     ON oarlock.runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_deadline ON oarlock.runs (queue_deadline) WHERE state = 'queued' AND started_at IS NULL AND queue_deadline IS NOT NULL;
CREATE INDEX runs_parent   ON oarlock.runs (parent_run) WHERE parent_run IS NOT NULL;
CREATE INDEX runs_dag      ON oarlock.runs (dag_id, run_id);
CREATE INDEX runs_rare     ON oarlock.runs (state, run_id) WHERE state IN ('running', 'waiting', 'paused', 'failed', 'canceled');
CREATE UNIQUE INDEX runs_fired ON oarlock.runs (schedule_id, logical_at) WHERE schedule_id IS NOT NULL AND retry_of IS NULL; -- a time fires once
CREATE INDEX runs_refired ON oarlock.runs (schedule_id, logical_at) WHERE schedule_id IS NOT NULL AND retry_of IS NOT NULL; -- runs that a backfill asks for again
CREATE INDEX runs_unfinished ON oarlock.runs (schedule_id, run_id) WHERE schedule_id IS NOT NULL AND finished_at IS NULL;
CREATE INDEX runs_finished ON oarlock.runs (dag_id, finished_at) WHERE finished_at IS NOT NULL; -- for retention

CREATE TABLE oarlock.run_keys (
    submitter    text   NOT NULL,
    run_key      text   NOT NULL CHECK (octet_length(run_key) BETWEEN 1 AND 200),
    run_id       bigint NOT NULL,
    request_hash bytea  NOT NULL,
    expires_at   timestamptz, -- set when the run is deleted before its key may be
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (submitter, run_key)
);
CREATE INDEX run_keys_expire ON oarlock.run_keys (expires_at) WHERE expires_at IS NOT NULL;

-- Tasks ---------------------------------------------------------------------------------------------------------

-- A task gets a row when it first leaves pending. There is no foreign key to runs, because a row is only ever written under the
-- claim of its run, and each check would lock the run once more. There is no index but the key, because a task is updated two
-- or three times in its life.
CREATE TABLE oarlock.tasks (
    run_id          bigint NOT NULL,
    step            int    NOT NULL CHECK (step >= 0),
    item            text   NOT NULL DEFAULT '' CHECK (octet_length(item) <= 200),
    alt             int    NOT NULL DEFAULT 0 CHECK (alt BETWEEN 0 AND 10),
    state           text   NOT NULL CHECK (state IN ('pending', 'ready', 'running', 'finishing', 'retrying', 'waiting', 'paused',
                    'succeeded', 'failed', 'skipped', 'upstream_failed', 'canceled', 'replaced')),
    attempt         int    NOT NULL CHECK (attempt >= 0),
    generation      int    NOT NULL,
    epoch           int    NOT NULL,
    seq             bigint NOT NULL,
    reason          text   NOT NULL DEFAULT '',
    failure_kind    text,
    exit_code       int,
    signal          int,
    worker          text,
    slot            int,
    outputs         jsonb,
    tolerated       bool   NOT NULL DEFAULT false,
    retries         int    NOT NULL DEFAULT 0,
    publish_tries   int    NOT NULL DEFAULT 0,
    publishing      bool   NOT NULL DEFAULT false,
    request         text   NOT NULL DEFAULT '',
    request_by      text   NOT NULL DEFAULT '',
    marked          text   NOT NULL DEFAULT '',
    settled         jsonb,
    grown           jsonb,
    reset_by        bigint, -- the control that reset the task last, and the state that it found
    reset_from      text,
    next_attempt_at timestamptz,
    deadline        timestamptz,
    external_ref    text,
    cache_key       text,
    log_day         date,
    last_line       text, -- the last line of stderr, for status
    started_at      timestamptz,
    attempt_at      timestamptz,
    finished_at     timestamptz,
    PRIMARY KEY (run_id, step, item, alt)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

-- Attempts that a later attempt superseded. The usual task has none.
CREATE TABLE oarlock.attempts (
    run_id       bigint NOT NULL,
    step         int    NOT NULL,
    item         text   NOT NULL,
    alt          int    NOT NULL,
    attempt      int    NOT NULL,
    generation   int    NOT NULL,
    state        text   NOT NULL,
    failure_kind text,
    exit_code    int,
    signal       int,
    reason       text   NOT NULL DEFAULT '',
    worker       text,
    log_day      date,
    started_at   timestamptz,
    finished_at  timestamptz,
    PRIMARY KEY (run_id, step, item, alt, attempt)
);

-- The questions of approvals: a row for each approval that waits, for as long as it waits. The flush that records a task as
-- waiting writes the row, and each statement that ends the wait deletes it. Lists of open decisions so need not search all runs.
CREATE TABLE oarlock.approvals_open (
    run_id    bigint NOT NULL,
    step      int    NOT NULL,
    item      text   NOT NULL,
    alt       int    NOT NULL,
    prompt    text   NOT NULL CHECK (octet_length(prompt) <= 4096), -- with its references filled in; empty: none
    inputs    jsonb  NOT NULL, -- as params are declared: [{"name": "ticket", "type": "string", "required": true}]
    approvers text[], -- null: all users that may control the run
    since     timestamptz NOT NULL,
    PRIMARY KEY (run_id, step, item, alt)
);

-- Requests, and their outcomes -------------------------------------------------------------------------------

CREATE TABLE oarlock.controls (
    control_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id     bigint NOT NULL,
    step       text, -- name of a step; of a replacement as step~1, of a handler as @exit
    item       text,
    verb       text   NOT NULL CHECK (verb IN ('cancel', 'pause', 'resume', 'retry', 'approve', 'reject', 'mark', 'child_ended')),
    args       jsonb  NOT NULL DEFAULT '{}',
    by         text   NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    decided_at timestamptz,
    outcome    text CHECK (outcome IN ('applied', 'accepted', 'refused')),
    state      text,
    message    text,
    CHECK ((decided_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX controls_open ON oarlock.controls (run_id, control_id) WHERE decided_at IS NULL;
CREATE INDEX controls_run  ON oarlock.controls (run_id, control_id);

CREATE TABLE oarlock.events (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id   bigint NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind     text   NOT NULL,
    by       text, -- the user that asked for it; null: no user did
    worker   text,
    epoch    int,
    seq      bigint, -- number of the record that it came with, so that a flush that is sent twice writes it once
    step     int,
    item     text,
    alt      int,
    message  text   NOT NULL DEFAULT ''
);
CREATE INDEX events_run ON oarlock.events (run_id, event_id);
CREATE UNIQUE INDEX events_once ON oarlock.events (run_id, epoch, seq) WHERE seq IS NOT NULL;

-- Workers -------------------------------------------------------------------------------------------------------

-- No column that a heartbeat changes has an index, so that heartbeats are HOT updates.
CREATE TABLE oarlock.workers (
    worker_id   uuid PRIMARY KEY,
    name        text   NOT NULL,
    host        text   NOT NULL,
    boot_id     text   NOT NULL,
    pid         int    NOT NULL,
    version     text   NOT NULL, -- version of its program, for people
    schema_version bigint NOT NULL DEFAULT 0, -- the newest schema version that its program knows
    labels      jsonb  NOT NULL,
    queues      text[] NOT NULL, -- empty: all
    slots       int    NOT NULL,
    containment text   NOT NULL,
    state       text   NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'draining', 'lost', 'gone')),
    beat        bigint NOT NULL DEFAULT 0,
    beat_at     timestamptz NOT NULL DEFAULT clock_timestamp(), -- for people; no decision reads it
    ttl_ms      bigint NOT NULL,
    busy        int    NOT NULL DEFAULT 0, -- slots in use
    waiting     int    NOT NULL DEFAULT 0, -- tasks that wait for a slot
    runs        int    NOT NULL DEFAULT 0,
    unfit       text   NOT NULL DEFAULT '', -- why it claims nothing, as of its last sign of life; empty: it claims
    unfit_since timestamptz,
    hungry      int    NOT NULL DEFAULT 0, -- how many more runs it would have taken when it became hungry; 0: it is not hungry
    least       int,                       -- the priority of the next task that waits for a slot; null: none waits
    only_run    bigint,                    -- the only run that it serves, with the children of that run; null: it serves lanes
    channel     text   NOT NULL,
    replaced_by uuid,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- The offers of each worker. They are not in the row of the worker, because each sign of life writes that row anew, and offers
-- would be half of it: dead versions stay for as long as a session holds an old snapshot. The statement that inserts the worker
-- inserts them too, and they never change.
CREATE TABLE oarlock.worker_offers (
    worker_id uuid   PRIMARY KEY REFERENCES oarlock.workers ON DELETE CASCADE,
    offers    text[] NOT NULL
);

-- The states that users want workers to take. They are not in the rows of the workers, because a user may leave the transaction
-- open, and the renewals of a worker must not wait for its end. The newest row of a worker counts.
CREATE TABLE oarlock.worker_orders (
    order_id  bigint GENERATED ALWAYS AS IDENTITY,
    worker_id uuid   NOT NULL,
    desired   text   NOT NULL CHECK (desired IN ('live', 'draining', 'gone')),
    by        text   NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (worker_id, order_id)
);

-- Fences are locked and deleted, never updated: a row updated by each flush would grow a version chain for as long as a session
-- holds an old snapshot. A worker has one per channel, and one statement in flight on each, so that no multixacts appear.
CREATE TABLE oarlock.fences (
    worker_id uuid NOT NULL,
    channel   text NOT NULL CHECK (channel IN ('commit', 'claim', 'logs', 'settle', 'permits')),
    PRIMARY KEY (worker_id, channel)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Logs ----------------------------------------------------------------------------------------------------------

CREATE TABLE oarlock.log_chunks (
    log_day       date   NOT NULL,
    run_id        bigint NOT NULL,
    step          int    NOT NULL,
    item          text   NOT NULL,
    alt           int    NOT NULL,
    attempt       int    NOT NULL,
    seq           int    NOT NULL CHECK (seq >= 0),
    stream        smallint NOT NULL, -- 1 stdout, 2 stderr, 0 messages of Oarlock
    at            timestamptz NOT NULL,
    data          bytea  NOT NULL,
    final         bool   NOT NULL DEFAULT false,
    reason        text,
    dropped_bytes bigint NOT NULL DEFAULT 0,
    -- How many lines of the attempt had begun by the end of this chunk, over all streams. A line begins with the first byte of
    -- a stream, after a newline of the same stream, and after dropped bytes.
    lines         bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (log_day, run_id, step, item, alt, attempt, seq)
) PARTITION BY RANGE (log_day);

-- The channels that follow a run. Only the log of a run with followers is flushed at once and announced.
CREATE TABLE oarlock.followers (
    run_id  bigint NOT NULL,
    channel text   NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (run_id, channel)
);

-- +goose StatementBegin
DO $$ BEGIN
    ALTER TABLE oarlock.log_chunks ALTER COLUMN data SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    RAISE NOTICE 'this server was built without lz4: logs use the slower pglz';
END $$;
-- +goose StatementEnd

CREATE TABLE oarlock.log_chunks_default PARTITION OF oarlock.log_chunks DEFAULT;

-- Makes the partitions of today and of the days ahead, and returns how many were missing. Workers call it, and nothing depends
-- on it: rows of a day without a partition go to the DEFAULT partition, and a day that already has rows there stays there. A
-- worker that finds the table locked, by another worker or a long reader, leaves the days to the next hour, because waiting
-- would hold up every append behind it. It locks the table, because any user could take an advisory lock.
-- +goose StatementBegin
CREATE FUNCTION oarlock.make_log_days(ahead int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    missing date[];
    day date;
BEGIN
    IF ahead IS NULL OR ahead NOT BETWEEN 0 AND 31 THEN
        RAISE EXCEPTION 'make_log_days: % days ahead: give 0 to 31', ahead USING ERRCODE = '22023';
    END IF;
    SELECT array_agg(d ORDER BY d) INTO missing
      FROM (SELECT today + n AS d FROM generate_series(0, ahead) n) days
     WHERE to_regclass('oarlock.log_chunks_' || to_char(d, 'YYYYMMDD')) IS NULL
       AND NOT EXISTS (SELECT FROM oarlock.log_chunks_default c WHERE c.log_day = d);
    IF missing IS NULL THEN
        RETURN 0;
    END IF;
    LOCK TABLE oarlock.log_chunks IN SHARE UPDATE EXCLUSIVE MODE;
    FOREACH day IN ARRAY missing LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS oarlock.%I PARTITION OF oarlock.log_chunks FOR VALUES FROM (%L) TO (%L)',
                       'log_chunks_' || to_char(day, 'YYYYMMDD'), day, day + 1);
    END LOOP;
    RETURN cardinality(missing);
EXCEPTION
    WHEN lock_not_available OR check_violation THEN -- check_violation: the first row of the day came first
        RETURN 0;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.make_log_days(int) IS 'Internal: partitions of log_chunks for today and the days ahead.';
SELECT oarlock.make_log_days(3);

-- Results that later runs may use ---------------------------------------------------------------------------------

CREATE TABLE oarlock.cache (
    dag_id     bigint NOT NULL,
    submitter  text   NOT NULL, -- runs of this login find it; empty: all runs do
    step       text   NOT NULL,
    key        text   NOT NULL,
    outputs    jsonb  NOT NULL,
    run_id     bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (dag_id, submitter, step, key)
);
CREATE INDEX cache_expires ON oarlock.cache (expires_at);

-- Assertions ----------------------------------------------------------------------------------------------------

-- Enforces two promises against every writer: a finished run changes no more, except when a retry opens a new generation of it,
-- and an epoch never falls.
-- +goose StatementBegin
CREATE FUNCTION oarlock.guard_run() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    opened oarlock.runs := OLD; -- the row that a retry makes of it, see reopen
BEGIN
    IF NEW.epoch < OLD.epoch OR NEW.generation < OLD.generation THEN
        RAISE EXCEPTION 'run %: epoch and generation must not fall from %, % to %, %',
            OLD.run_id, OLD.epoch, OLD.generation, NEW.epoch, NEW.generation
            USING ERRCODE = 'OA011', HINT = 'a driver that lost its claim must write nothing: please report this';
    END IF;
    IF NEW.uid <> OLD.uid AND OLD.finished_at IS NULL THEN
        RAISE EXCEPTION 'run %: its uid must not change', OLD.run_id USING ERRCODE = 'OA011', HINT = 'other systems know the run by it';
    END IF;
    IF OLD.finished_at IS NOT NULL THEN
        opened.generation := OLD.generation + 1;
        IF NEW.lane_id <> OLD.lane_id AND EXISTS ( -- see hold_lane
            SELECT FROM oarlock.lanes n JOIN oarlock.lanes o USING (queue, priority, selector, needs, slots, dag_id, keyed)
             WHERE n.lane_id = NEW.lane_id AND o.lane_id = OLD.lane_id) THEN
            opened.lane_id := NEW.lane_id;
        END IF;
        opened.inbox := OLD.inbox + 1;
        opened.state := 'queued';
        opened.reason := '';
        opened.losses := 0;
        opened.ending := '';
        opened.ending_by := '';
        opened.ending_text := '';
        opened.paused_by := '';
        opened.deadline := NULL;
        opened.left_ms := 0;
        opened.tolerated := 0;
        opened.stage := 2;
        opened.ready_at := least(greatest(NEW.ready_at, OLD.run_at), OLD.run_at + OLD.run_id % 100000 * interval '1 microsecond'); -- see place_of
        opened.started_at := NULL;
        opened.finished_at := NULL;
    END IF;
    IF OLD.finished_at IS NOT NULL AND NEW IS DISTINCT FROM opened THEN
        RAISE EXCEPTION 'run % is % and changes no more', OLD.run_id, OLD.state
            USING ERRCODE = 'OA010', HINT = 'retry it: SELECT * FROM oarlock.retry(run), or `oarlock retry`';
    ELSIF OLD.finished_at IS NOT NULL AND NEW.finished_at IS NULL THEN -- set here, so that no writer can choose it
        NEW.queue_deadline := clock_timestamp() + (SELECT v.queue_timeout_ms * interval '1 millisecond' FROM oarlock.dag_versions v
                                                    WHERE v.dag_id = NEW.dag_id AND v.version = NEW.version AND v.queue_timeout_ms > 0);
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER runs_guard BEFORE UPDATE ON oarlock.runs FOR EACH ROW
    WHEN (OLD.finished_at IS NOT NULL OR NEW.epoch < OLD.epoch OR NEW.generation < OLD.generation OR NEW.uid <> OLD.uid)
    EXECUTE FUNCTION oarlock.guard_run();

-- Enforces the promises of tasks: a task is final within a generation, and is written in the order of (epoch, seq). It may enter
-- only the generation that its run is in, and only while the run has not ended. A run that ended in the same transaction does
-- not count as ended, since one flush may write a task and the end of its run. Within a generation a retry or a mark of this run
-- may reset a task once, as long as it is not decided. The items and replacements of such a task are reset when they are made anew,
-- by a control that was applied. A control that was decided in the same transaction counts as not decided.
-- +goose StatementBegin
CREATE FUNCTION oarlock.guard_task() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (NEW.epoch, NEW.seq) < (OLD.epoch, OLD.seq) OR NEW.generation < OLD.generation THEN
        RAISE EXCEPTION 'run % step %: epoch, seq and generation must not fall from %, %, % to %, %, %', OLD.run_id, OLD.step,
            OLD.epoch, OLD.seq, OLD.generation, NEW.epoch, NEW.seq, NEW.generation
            USING ERRCODE = 'OA011', HINT = 'a driver that lost its claim must write nothing: please report this';
    END IF;
    IF NEW.generation = OLD.generation AND NEW IS DISTINCT FROM OLD
       AND NOT (NEW.reset_by > coalesce(OLD.reset_by, 0) AND EXISTS (
          SELECT FROM oarlock.controls c WHERE c.control_id = NEW.reset_by AND c.run_id = NEW.run_id AND c.verb IN ('retry', 'mark')
             AND (c.outcome = 'applied' AND (NEW.item <> '' OR NEW.alt > 0 OR c.xmin = pg_current_xact_id()::xid) OR c.decided_at IS NULL))
          AND EXISTS (SELECT FROM oarlock.runs r WHERE r.run_id = NEW.run_id
             AND (r.finished_at IS NULL OR r.xmin = pg_current_xact_id()::xid)))
       OR (NEW.run_id, NEW.step, NEW.item, NEW.alt) <> (OLD.run_id, OLD.step, OLD.item, OLD.alt) OR NEW.attempt < OLD.attempt
       OR NEW.generation > OLD.generation AND NOT EXISTS (
          SELECT FROM oarlock.runs r WHERE r.run_id = NEW.run_id AND r.generation = NEW.generation
             AND (r.finished_at IS NULL OR r.xmin = pg_current_xact_id()::xid)) THEN
        RAISE EXCEPTION 'run % step % is % and changes no more', OLD.run_id, OLD.step, OLD.state
            USING ERRCODE = 'OA010', HINT = 'retry the run: SELECT * FROM oarlock.retry(run), or `oarlock retry`';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER tasks_guard BEFORE UPDATE ON oarlock.tasks FOR EACH ROW
    WHEN (OLD.state IN ('succeeded', 'failed', 'skipped', 'upstream_failed', 'canceled', 'replaced')
          OR NEW.epoch < OLD.epoch OR NEW.epoch = OLD.epoch AND NEW.seq < OLD.seq OR NEW.generation < OLD.generation)
    EXECUTE FUNCTION oarlock.guard_task();

-- Enforces that a decided control changes no more.
-- +goose StatementBegin
CREATE FUNCTION oarlock.guard_control() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'control % was decided: %', OLD.control_id, OLD.outcome
            USING ERRCODE = 'OA010', HINT = 'ask again: each request makes a new control';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER controls_guard BEFORE UPDATE ON oarlock.controls FOR EACH ROW WHEN (OLD.decided_at IS NOT NULL)
    EXECUTE FUNCTION oarlock.guard_control();

-- A worker cannot add to the open approvals, the attempts, the history and the logs of a run that is over or was never there.
-- The policies check new rows of a flush against the run as it was before. They do not apply to the owner, and so not to functions
-- that run with its rights. The condition is a subquery and not EXISTS, which could be planned as a hash of all runs. Tasks have
-- no such policy: each flush has many, and would take a tenth longer.
ALTER TABLE oarlock.approvals_open ENABLE ROW LEVEL SECURITY;
ALTER TABLE oarlock.attempts ENABLE ROW LEVEL SECURITY;
ALTER TABLE oarlock.events ENABLE ROW LEVEL SECURITY;
ALTER TABLE oarlock.log_chunks ENABLE ROW LEVEL SECURITY;
CREATE POLICY read ON oarlock.approvals_open FOR SELECT USING (true);
CREATE POLICY read ON oarlock.attempts FOR SELECT USING (true);
CREATE POLICY read ON oarlock.events FOR SELECT USING (true);
CREATE POLICY read ON oarlock.log_chunks FOR SELECT USING (true);
CREATE POLICY add ON oarlock.approvals_open FOR INSERT
    WITH CHECK ((SELECT r.state FROM oarlock.runs r WHERE r.run_id = approvals_open.run_id) NOT IN ('succeeded', 'failed', 'canceled'));
CREATE POLICY change ON oarlock.approvals_open FOR UPDATE
    USING (true) WITH CHECK ((SELECT r.state FROM oarlock.runs r WHERE r.run_id = approvals_open.run_id) NOT IN ('succeeded', 'failed', 'canceled'));
CREATE POLICY remove ON oarlock.approvals_open FOR DELETE USING (true);
CREATE POLICY add ON oarlock.attempts FOR INSERT
    WITH CHECK ((SELECT r.state FROM oarlock.runs r WHERE r.run_id = attempts.run_id) NOT IN ('succeeded', 'failed', 'canceled'));
CREATE POLICY add ON oarlock.events FOR INSERT
    WITH CHECK ((SELECT r.state FROM oarlock.runs r WHERE r.run_id = events.run_id) NOT IN ('succeeded', 'failed', 'canceled'));
CREATE POLICY add ON oarlock.log_chunks FOR INSERT
    WITH CHECK ((SELECT r.state FROM oarlock.runs r WHERE r.run_id = log_chunks.run_id) NOT IN ('succeeded', 'failed', 'canceled'));

-- +goose Down
DROP TABLE oarlock.cache, oarlock.followers,
    oarlock.log_chunks, oarlock.fences, oarlock.worker_orders, oarlock.worker_offers, oarlock.workers, oarlock.events, oarlock.controls, oarlock.approvals_open, oarlock.attempts, oarlock.tasks,
    oarlock.run_keys, oarlock.runs, oarlock.dag_versions, oarlock.dags, oarlock.lanes, oarlock.queues;
DROP FUNCTION oarlock.make_log_days(int);
DROP FUNCTION oarlock.guard_control();
DROP FUNCTION oarlock.guard_task();
DROP FUNCTION oarlock.guard_run();
DROP FUNCTION oarlock.new_uid();
DROP FUNCTION oarlock.is_sound(text, text, jsonb, jsonb, int, int, int, int, uuid, uuid, smallint, timestamptz, timestamptz, timestamptz);
