-- +goose Up

-- Agenda ------------------------------------------------------------------------------------------------------------

-- Items that the database itself has to handle at a moment. The first worker that looks attends to an item. Applications only
-- insert rows here, or move the rows of their own schedules, so an open transaction holds up no other user.
CREATE TABLE oarlock.agenda (
    kind      text        NOT NULL CHECK (kind IN ('schedule', 'ended')),
    id        bigint      NOT NULL, -- a schedule that fires; a run that ended
    n         int         NOT NULL DEFAULT 0, -- the generation of the run
    at        timestamptz NOT NULL,
    held_from timestamptz, -- fire times due since then are not late, because an overlap or an error holds them back; null: nothing does
    state     text, -- how the run ended; the run may be open again when a worker reads this
    errors    int         NOT NULL DEFAULT 0, -- errors in a row
    error     text        NOT NULL DEFAULT '',
    PRIMARY KEY (kind, id, n)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX agenda_at ON oarlock.agenda (at);

-- Puts the end of a run of a schedule on the agenda. Every statement that ends such a run fires it: a flush, a cancel, a deadline,
-- and oarlock.fail_run or release_unreadable after a run that no worker can drive. Other updates of runs cost one comparison.
-- +goose StatementBegin
CREATE FUNCTION oarlock.run_ended() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO oarlock.agenda (kind, id, n, at, state) VALUES ('ended', NEW.run_id, NEW.generation, clock_timestamp(), NEW.state)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER runs_ended AFTER UPDATE ON oarlock.runs FOR EACH ROW
    WHEN (NEW.schedule_id IS NOT NULL AND OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL) EXECUTE FUNCTION oarlock.run_ended();

-- Schedules ---------------------------------------------------------------------------------------------------------

-- Returns whether a schedule is consistent. It is a function, because Postgres parses the text of each CHECK anew in every
-- statement.
-- +goose StatementBegin
CREATE FUNCTION oarlock.is_sound_schedule(name text, overlap_policy text, at_once int, catchup_max int, jitter_ms int, pause_on_failure int,
    paused_by text, paused_at timestamptz, backfill_of bigint, from_at timestamptz, until_at timestamptz, reprocess text, newest_first bool) RETURNS bool
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN octet_length(name) BETWEEN 1 AND 120 AND overlap_policy IN ('skip', 'all', 'latest', 'cancel', 'allow') AND at_once BETWEEN 1 AND 1000
       AND catchup_max BETWEEN 1 AND 1000 AND jitter_ms BETWEEN 0 AND 3600000 AND pause_on_failure >= 0 AND (paused_by IS NULL) = (paused_at IS NULL)
       AND num_nulls(backfill_of, from_at, until_at, reprocess, newest_first) IN (0, 5) AND (reprocess IN ('missing', 'failed', 'all')) IS NOT FALSE;
END $$;
-- +goose StatementEnd

CREATE TABLE oarlock.schedules (
    schedule_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dag_id           bigint NOT NULL REFERENCES oarlock.dags,
    name             text   NOT NULL, -- up to 100 bytes; of a backfill the name of its schedule and a number: nightly#12
    owner            text, -- the login that owns its runs; null: it comes from the file of the DAG
    timing           oarlock.timing NOT NULL,
    params           jsonb  NOT NULL,
    labels           jsonb  NOT NULL,
    overlap_policy   text   NOT NULL,
    at_once          int    NOT NULL,
    catchup          bool   NOT NULL,
    catchup_window   interval,
    catchup_max      int    NOT NULL,
    jitter_ms        int    NOT NULL,
    pause_on_failure int    NOT NULL, -- failed runs in a row that pause it; 0: never
    decided_at       timestamptz NOT NULL, -- the newest fire time that is decided
    failures         int    NOT NULL DEFAULT 0, -- runs that failed in a row
    paused_by        text,
    paused_at        timestamptz,
    pause_note       text,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at         timestamptz, -- when it was dropped or gone from the file; a backfill also ends when it is over
    backfill_of      bigint, -- not null: this is a backfill of that schedule, see 00015_backfills.sql
    from_at          timestamptz,
    until_at         timestamptz, -- the first moment after the backfill
    reprocess        text, -- missing, failed, all
    newest_first     bool, -- true: decided_at is the oldest fire time that is decided
    CONSTRAINT schedules_sound CHECK (oarlock.is_sound_schedule(name, overlap_policy, at_once, catchup_max, jitter_ms, pause_on_failure, paused_by,
        paused_at, backfill_of, from_at, until_at, reprocess, newest_first))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE UNIQUE INDEX schedules_name ON oarlock.schedules (dag_id, coalesce(owner, ''), name) WHERE ended_at IS NULL;
CREATE INDEX schedules_backfill ON oarlock.schedules (backfill_of) WHERE backfill_of IS NOT NULL;
CREATE INDEX schedules_owner ON oarlock.schedules (owner) WHERE owner IS NOT NULL AND ended_at IS NULL;

-- The outcome of each fire time: a row for a time, or for several times in sequence with the same outcome.
CREATE TABLE oarlock.fires (
    schedule_id bigint      NOT NULL,
    logical_at  timestamptz NOT NULL,
    until       timestamptz, -- the last of several times; null: only logical_at
    count       int         DEFAULT 1, -- null: more than 1,000
    outcome     text        NOT NULL CHECK (outcome IN ('fired', 'skipped', 'dropped', 'refused')),
    run_id      bigint,
    reason      text        NOT NULL DEFAULT '',
    decided_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (schedule_id, logical_at)
);

-- A decision about fire times, for the worker that attends.
CREATE TYPE oarlock.decision AS (outcome text, times int, late_ms bigint, message text, lane_id int);

-- Returns the same for every session that computes it.
CREATE FUNCTION oarlock.jitter_of(s oarlock.schedules, at timestamptz) RETURNS interval
LANGUAGE sql STABLE
RETURN CASE WHEN (s).jitter_ms = 0 THEN interval '0'
            ELSE ('x' || left(encode(sha256(convert_to(concat((s).schedule_id, ':', floor(extract(epoch FROM at))::bigint), 'UTF8')), 'hex'), 15))::bit(60)::bigint
                 % (s).jitter_ms * interval '1 millisecond' END;
COMMENT ON FUNCTION oarlock.jitter_of IS 'Internal: how long after a fire time the schedule fires.';

-- Returns the fire time that a schedule decides next; null: there is none.
-- +goose StatementBegin
CREATE FUNCTION oarlock.coming_of(s oarlock.schedules) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    coming timestamptz := CASE WHEN s.newest_first THEN oarlock.last_time(s.timing, s.decided_at) ELSE oarlock.next_time(s.timing, s.decided_at) END;
BEGIN
    RETURN CASE WHEN s.backfill_of IS NULL OR coming >= s.from_at AND coming < s.until_at THEN coming END;
END $$;
-- +goose StatementEnd

-- Puts the next fire time of a schedule on the agenda, and returns it; null: it has none. A backfill is due at once.
-- +goose StatementBegin
CREATE FUNCTION oarlock.arm_schedule(s oarlock.schedules) RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
    coming timestamptz := CASE WHEN s.backfill_of IS NOT NULL THEN clock_timestamp() ELSE oarlock.coming_of(s) END;
BEGIN
    IF coming IS NULL OR s.paused_by IS NOT NULL OR s.ended_at IS NOT NULL THEN
        DELETE FROM oarlock.agenda a WHERE a.kind = 'schedule' AND a.id = s.schedule_id;
        RETURN NULL;
    END IF;
    INSERT INTO oarlock.agenda AS a (kind, id, at) VALUES ('schedule', s.schedule_id, coming + oarlock.jitter_of(s, coming))
    ON CONFLICT (kind, id, n) DO UPDATE SET at = excluded.at, held_from = NULL, errors = 0, error = '';
    RETURN coming;
END $$;
-- +goose StatementEnd

-- Returns how many fire times lie above one moment and up to another; null: more than `most`, or counting took over a second.
-- +goose StatementBegin
CREATE FUNCTION oarlock.count_times(t oarlock.timing, after timestamptz, upto timestamptz, most int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql STABLE AS $$
DECLARE
    began timestamptz := clock_timestamp();
    n     int := 0;
BEGIN
    LOOP
        after := oarlock.next_time(t, after);
        EXIT WHEN after IS NULL OR after > upto;
        n := n + 1;
        IF n > most OR clock_timestamp() > began + interval '1 second' THEN
            RETURN NULL;
        END IF;
    END LOOP;
    RETURN n;
END $$;
-- +goose StatementEnd

-- Records one outcome for all undecided fire times up to a moment: a row for each stretch between times that a user triggered.
-- +goose StatementBegin
CREATE FUNCTION oarlock.pass_over(s oarlock.schedules, upto timestamptz, outcome text, reason text) RETURNS SETOF oarlock.decision
LANGUAGE plpgsql AS $$
DECLARE
    first timestamptz := oarlock.next_time(s.timing, s.decided_at);
    fired timestamptz;
    times int;
BEGIN
    WHILE first <= upto LOOP
        SELECT min(f.logical_at) INTO fired FROM oarlock.fires f WHERE f.schedule_id = s.schedule_id AND f.logical_at BETWEEN first AND upto;
        IF fired IS DISTINCT FROM first THEN
            times := oarlock.record_stretch(s, first, coalesce(oarlock.last_time(s.timing, fired), upto), outcome, reason);
            RETURN NEXT ROW(outcome, coalesce(times, 1000), NULL, reason, NULL)::oarlock.decision;
        END IF;
        first := oarlock.next_time(s.timing, fired);
    END LOOP;
END $$;
-- +goose StatementEnd

-- Records the outcome of all fire times of a stretch, and returns how many there are; null: too many to count. After an edit of the
-- schedule, `first` may be no longer a time of it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.record_stretch(s oarlock.schedules, first timestamptz, upto timestamptz, outcome text, reason text) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    rest int := oarlock.count_times(s.timing, first, upto, 999);
BEGIN
    INSERT INTO oarlock.fires (schedule_id, logical_at, until, count, outcome, reason)
    VALUES (s.schedule_id, first, CASE WHEN rest IS DISTINCT FROM 0 THEN oarlock.last_time(s.timing, upto + interval '1 microsecond') END, 1 + rest, outcome, reason)
    ON CONFLICT DO NOTHING;
    RETURN 1 + rest;
END $$;
-- +goose StatementEnd

-- Takes a time out of the record, so that it may fire after all. The outcomes of times before and after it in the same row stay.
-- +goose StatementBegin
CREATE FUNCTION oarlock.forget_time(s oarlock.schedules, at timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    had  oarlock.fires;
    rest timestamptz := oarlock.next_time(s.timing, at);
BEGIN
    SELECT * INTO had FROM oarlock.fires f WHERE f.schedule_id = s.schedule_id AND f.logical_at <= at AND (f.logical_at = at OR f.until IS NOT NULL)
     ORDER BY f.logical_at DESC LIMIT 1;
    IF at = had.logical_at OR at <= had.until AND at = oarlock.next_time(s.timing, at - interval '1 microsecond') THEN
        DELETE FROM oarlock.fires f WHERE f.schedule_id = s.schedule_id AND f.logical_at = had.logical_at;
        IF had.logical_at < at THEN
            PERFORM oarlock.record_stretch(s, had.logical_at, oarlock.last_time(s.timing, at), had.outcome, had.reason);
        END IF;
        IF rest <= had.until THEN
            PERFORM oarlock.record_stretch(s, rest, had.until, had.outcome, had.reason);
        END IF;
    END IF;
END $$;
-- +goose StatementEnd

-- Raises OA005 if the owner may not have schedules of a DAG, or not any longer.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_owner(d oarlock.dags, owner text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF d.current_grants AND oarlock.role_is_one_of(owner, 'oarlock_submit', 'oarlock_admin', 'oarlock_worker') OR oarlock.role_is_one_of(owner, 'oarlock_admin', 'oarlock_worker') THEN
        RETURN;
    ELSIF oarlock.role_is_one_of(owner, 'oarlock_submit') THEN
        RAISE EXCEPTION 'the dag lets submitters have no schedules' USING ERRCODE = 'OA005', HINT = 'have it say allow: {schedules: true}';
    END IF;
    RAISE EXCEPTION 'role % may not enqueue runs', owner USING ERRCODE = 'OA005', HINT = 'grant it oarlock_submit, or drop its schedules';
END $$;
-- +goose StatementEnd

-- Makes the run of a fire time; null: the time is decided already. A run of a backfill has a lower priority than live runs, and the
-- name of the schedule itself.
-- +goose StatementBegin
CREATE FUNCTION oarlock.make_run(s oarlock.schedules, d oarlock.dags, at timestamptz, trigger text, reason text, OUT run bigint, OUT lane int)
LANGUAGE plpgsql AS $$
DECLARE
    id       bigint := nextval('oarlock.runs_run_id_seq');
    name     text := s.name;
    priority int;
BEGIN
    INSERT INTO oarlock.fires (schedule_id, logical_at, outcome, run_id, reason) VALUES (s.schedule_id, at, 'fired', id, reason) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF s.owner IS NOT NULL THEN
        PERFORM oarlock.check_owner(d, s.owner);
    END IF;
    IF s.backfill_of IS NOT NULL THEN
        SELECT greatest(v.priority - 10, -100), x.name INTO priority, name FROM oarlock.dag_versions v, oarlock.schedules x
         WHERE v.dag_id = d.dag_id AND v.version = d.current_version AND x.schedule_id = s.backfill_of;
    END IF;
    lane := oarlock.insert_run(id, d.name, s.params, NULL, NULL, priority, NULL, s.labels, NULL, at, NULL, NULL, NULL, trigger,
        coalesce(s.owner, d.current_by), s.schedule_id, name, oarlock.last_time(s.timing, at));
    run := id;
END $$;
-- +goose StatementEnd

-- Makes the run of a fire time, or records in `fires` why there is none. If the queue is full and `patient` is true, it does
-- neither, and the time waits.
-- +goose StatementBegin
CREATE FUNCTION oarlock.fire(s oarlock.schedules, d oarlock.dags, at timestamptz, patient bool) RETURNS SETOF oarlock.decision
LANGUAGE plpgsql AS $$
DECLARE
    made oarlock.decision;
BEGIN
    BEGIN
        SELECT CASE WHEN m.run IS NOT NULL THEN 'fired' END, m.lane INTO made.outcome, made.lane_id
          FROM oarlock.make_run(s, d, at, CASE WHEN s.backfill_of IS NULL THEN 'schedule' ELSE 'backfill' END, '') m;
        IF made.outcome IS NULL THEN -- a user triggered this time
            RETURN;
        END IF;
    EXCEPTION WHEN OTHERS THEN
        made.message := SQLERRM;
        made.outcome := CASE WHEN SQLSTATE = 'OA006' AND patient THEN 'waits' WHEN SQLSTATE LIKE 'OA%' THEN 'refused' END;
        IF made.outcome IS NULL THEN
            RAISE;
        END IF;
    END;
    IF made.outcome = 'refused' THEN
        INSERT INTO oarlock.fires (schedule_id, logical_at, outcome, reason) VALUES (s.schedule_id, at, 'refused', made.message);
    END IF;
    made.times := 1;
    RETURN NEXT made;
END $$;
-- +goose StatementEnd

-- Returns the moment above which the due fire times fire, the last at upto, and the reason why earlier times do not.
-- +goose StatementBegin
CREATE FUNCTION oarlock.fires_above(s oarlock.schedules, upto timestamptz, held_from timestamptz, now timestamptz, OUT above timestamptz, OUT reason text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    jitter interval := s.jitter_ms * interval '1 millisecond';
    oldest timestamptz := upto;
BEGIN
    above := s.decided_at;
    IF NOT s.catchup THEN
        reason := 'late, and catchup is off';
        above := greatest(above, least(now - interval '1 minute', held_from - interval '1 microsecond') - jitter);
        -- an outage loses no fire if it is short compared with the time between two fires
        IF upto <= above AND now - upto <= jitter + least(interval '10 minutes', (oarlock.next_time(s.timing, upto) - upto) / 2) THEN
            above := upto - interval '1 microsecond';
        END IF;
        RETURN;
    END IF;
    IF now - s.catchup_window > above THEN
        reason := 'older than catchup_window';
        above := now - s.catchup_window;
    END IF;
    IF held_from IS NULL THEN -- times that are held back all come in their turn, and catchup_max does not count
        FOR i IN 1 .. s.catchup_max LOOP
            EXIT WHEN oldest IS NULL OR oldest <= above;
            IF clock_timestamp() > now + interval '2 seconds' THEN -- all other schedules wait meanwhile
                RAISE EXCEPTION 'the times to make up for take too long to find' USING ERRCODE = 'OA012', HINT = 'leave out less by except, or lower catchup_max';
            END IF;
            oldest := oarlock.last_time(s.timing, oldest);
        END LOOP;
        IF oldest > above THEN
            reason := 'more than catchup_max came after it';
            above := oldest;
        END IF;
    END IF;
END $$;
-- +goose StatementEnd

-- Puts an item of the agenda off by `pause`. Its times count as held back, and not as late, from the time of the item on, or
-- from `since` if that is later: earlier times stay late.
-- +goose StatementBegin
CREATE FUNCTION oarlock.put_off(item oarlock.agenda, pause interval, since timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE oarlock.agenda a SET at = clock_timestamp() + pause, held_from = coalesce(a.held_from, greatest(a.at, since)), errors = 0, error = ''
     WHERE (a.kind, a.id, a.n) = (item.kind, item.id, item.n);
END $$;
-- +goose StatementEnd

-- Cancels the oldest run of a schedule, once. Returns false if another session has the run locked.
-- +goose StatementBegin
CREATE FUNCTION oarlock.cancel_oldest(s oarlock.schedules) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
    r oarlock.runs;
BEGIN
    SELECT * INTO r FROM oarlock.runs o
     WHERE o.run_id = (SELECT min(x.run_id) FROM oarlock.runs x WHERE x.schedule_id = s.schedule_id AND x.finished_at IS NULL) FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND AND NOT oarlock.is_canceling(r) THEN
        PERFORM oarlock.request_control(r.run_id, NULL, NULL, 'cancel', '{}', 'schedule ' || s.name);
    END IF;
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- Decides the due fire times of a schedule, the oldest first. It leaves the rest to the next call after half a second, and after 20
-- tries: each try is a subtransaction, and a snapshot has room for 64 of a transaction.
-- +goose StatementBegin
CREATE FUNCTION oarlock.attend_schedule(item oarlock.agenda, s oarlock.schedules, d oarlock.dags) RETURNS SETOF oarlock.decision
LANGUAGE plpgsql AS $$
DECLARE
    now    timestamptz := clock_timestamp();
    made   oarlock.decision;
    upto   timestamptz; -- the newest time that is due
    live_at timestamptz; -- of a backfill: the time up to which its schedule leaves times to it; null: no backfill
    coming timestamptz;
    keep   record;
    busy   int := 0;
    tries  int := 0;
    passed int := 0; -- number of times that a backfill leaves alone
    pause  interval;
BEGIN
    IF s.backfill_of IS NOT NULL THEN
        -- Lock the schedule, so that neither it nor another backfill of it decides meanwhile: neither would see the runs of the
        -- other.
        SELECT oarlock.left_until(x) INTO live_at FROM oarlock.schedules x WHERE x.schedule_id = s.backfill_of FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            PERFORM oarlock.put_off(item, interval '1 second');
            RETURN;
        END IF;
        upto := 'infinity';
    ELSE
        upto := oarlock.last_time(s.timing, now + interval '1 microsecond');
        IF upto + oarlock.jitter_of(s, upto) > now THEN
            upto := oarlock.last_time(s.timing, upto);
        END IF;
    END IF;
    IF upto > s.decided_at THEN
        IF s.backfill_of IS NULL THEN
            keep := oarlock.fires_above(s, upto, item.held_from, now);
            IF keep.above > s.decided_at THEN
                keep.above := least(keep.above, upto);
                RETURN QUERY SELECT * FROM oarlock.pass_over(s, keep.above, 'dropped', keep.reason);
                s.decided_at := keep.above;
            END IF;
        END IF;
        IF s.overlap_policy <> 'allow' THEN
            SELECT count(*) INTO busy FROM (SELECT FROM oarlock.runs r WHERE r.schedule_id = s.schedule_id AND r.finished_at IS NULL LIMIT s.at_once) x;
        END IF;
    END IF;
    WHILE pause IS NULL LOOP
        coming := oarlock.coming_of(s);
        EXIT WHEN coming IS NULL OR coming > upto OR upto IS NULL;
        IF busy >= s.at_once AND s.overlap_policy = 'skip' THEN
            RETURN QUERY SELECT p.* FROM oarlock.pass_over(s, upto, 'skipped', (SELECT format('run %s is not over', min(r.run_id)) FROM oarlock.runs r
                                                            WHERE r.schedule_id = s.schedule_id AND r.finished_at IS NULL)) p;
            s.decided_at := upto;
        ELSIF busy >= s.at_once THEN
            pause := interval '1 minute'; -- the end of a run wakes it before that
            IF s.overlap_policy = 'cancel' AND NOT oarlock.cancel_oldest(s) THEN
                pause := interval '1 second';
            END IF;
        ELSIF coming > live_at THEN
            pause := interval '1 minute';
        ELSIF tries = 20 OR passed = 500 OR tries + passed > 0 AND clock_timestamp() > now + interval '500 milliseconds' THEN
            pause := interval '0';
        ELSIF s.backfill_of IS NOT NULL AND oarlock.spare(s, coming) THEN
            passed := passed + 1;
            s.decided_at := coming;
        ELSE
            IF s.overlap_policy IN ('latest', 'cancel') AND coming < upto THEN
                RETURN QUERY SELECT * FROM oarlock.pass_over(s, oarlock.last_time(s.timing, upto), 'skipped', 'a later one fires');
                coming := upto;
            END IF;
            made := NULL;
            SELECT * INTO made FROM oarlock.fire(s, d, coming, s.overlap_policy IN ('all', 'latest', 'cancel') OR item.held_from IS NULL
                OR greatest(item.held_from, coming) > now - interval '1 minute');
            IF made.outcome = 'fired' AND s.backfill_of IS NULL AND item.held_from IS NULL THEN
                made.late_ms := greatest(0, extract(epoch FROM clock_timestamp() - coming - oarlock.jitter_of(s, coming)) * 1000);
            END IF;
            IF made.outcome = 'waits' THEN
                pause := interval '1 second';
            ELSE
                tries := tries + 1;
                s.decided_at := coming;
                busy := busy + CASE WHEN made.outcome = 'fired' AND s.overlap_policy <> 'allow' THEN 1 ELSE 0 END;
            END IF;
            IF made.outcome IS NOT NULL THEN
                RETURN NEXT made;
            END IF;
        END IF;
    END LOOP;
    UPDATE oarlock.schedules x SET decided_at = s.decided_at WHERE x.schedule_id = s.schedule_id AND x.decided_at <> s.decided_at;
    IF passed > 0 THEN
        RETURN NEXT ROW('skipped', passed, NULL, 'reprocess is ' || s.reprocess, NULL)::oarlock.decision;
    END IF;
    IF pause IS NULL AND s.backfill_of IS NOT NULL AND busy > 0 THEN
        pause := interval '1 minute'; -- the backfill is over when its runs are over
    END IF;
    IF pause IS NOT NULL THEN
        PERFORM oarlock.put_off(item, pause);
    ELSIF s.backfill_of IS NOT NULL THEN
        RETURN NEXT oarlock.end_backfill(s);
    ELSIF coming IS NULL THEN
        DELETE FROM oarlock.agenda a WHERE (a.kind, a.id, a.n) = (item.kind, item.id, item.n);
    ELSE
        UPDATE oarlock.agenda a SET at = coming + oarlock.jitter_of(s, coming), held_from = NULL, errors = 0, error = ''
         WHERE (a.kind, a.id, a.n) = (item.kind, item.id, item.n);
    END IF;
END $$;
-- +goose StatementEnd

-- Attends to the end of a run of a schedule: a fire time that the run held back may fire, and the schedule may be paused after
-- runs that failed in a row.
-- +goose StatementBegin
CREATE FUNCTION oarlock.attend_end(item oarlock.agenda, s oarlock.schedules) RETURNS SETOF oarlock.decision
LANGUAGE plpgsql AS $$
DECLARE
    note text;
BEGIN
    -- A session that has this item locked has not begun to attend to it, since it would need the lock of the schedule, which is
    -- ours. It will then see the end of the run, so a locked item is skipped.
    PERFORM FROM oarlock.agenda a WHERE a.kind = 'schedule' AND a.id = s.schedule_id AND a.held_from IS NOT NULL AND a.errors = 0 FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE oarlock.agenda a SET at = clock_timestamp() WHERE a.kind = 'schedule' AND a.id = s.schedule_id;
    END IF;
    IF item.state = 'failed' OR item.state = 'succeeded' AND s.failures > 0 THEN
        UPDATE oarlock.schedules x SET failures = CASE item.state WHEN 'failed' THEN x.failures + 1 ELSE 0 END
         WHERE x.schedule_id = s.schedule_id RETURNING * INTO s;
    END IF;
    IF s.pause_on_failure > 0 AND s.failures >= s.pause_on_failure AND s.paused_by IS NULL AND s.ended_at IS NULL THEN
        note := format('%s of its runs failed in a row, the last is run %s', s.failures, item.id);
        UPDATE oarlock.schedules x SET paused_by = 'oarlock', paused_at = clock_timestamp(), pause_note = note WHERE x.schedule_id = s.schedule_id;
        DELETE FROM oarlock.agenda a WHERE a.kind = 'schedule' AND a.id = s.schedule_id;
        INSERT INTO oarlock.events (run_id, kind, message) VALUES (item.id, 'schedule_paused', format('schedule %s is paused: %s', s.name, note));
        RETURN NEXT ROW('paused', 1, NULL, note, NULL)::oarlock.decision;
    END IF;
    DELETE FROM oarlock.agenda a WHERE (a.kind, a.id, a.n) = (item.kind, item.id, item.n);
END $$;
-- +goose StatementEnd

-- Attends to due items of the agenda for half a second at most, and returns the decisions. Each item is a subtransaction, so
-- that a bad item fails alone. A row of kind `more` means that due items are left. It waits for a lock of an application for
-- lock_timeout at most.
-- +goose StatementBegin
CREATE FUNCTION oarlock.attend(floor timestamptz, batch int)
RETURNS TABLE (kind text, dag text, schedule text, outcome text, times int, late_ms bigint, message text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms' AS $$
#variable_conflict use_column
DECLARE
    began timestamptz := clock_timestamp();
    recently CONSTANT timestamptz := began - interval '10 minutes'; -- an undecided time that was due before this may be late
    item  oarlock.agenda;
    own   bigint; -- the schedule of the item
    s     oarlock.schedules;
    of    oarlock.dags;
    made  oarlock.decision[];
    d     oarlock.decision;
    lanes int[] := '{}';
    items int := 0;
    room  int := 40; -- subtransactions that are left
BEGIN
    PERFORM pg_current_xact_id(); -- before the clock is read for any run that is made here
    FOR item IN SELECT a.* FROM oarlock.agenda a WHERE a.at > attend.floor AND a.at <= statement_timestamp()
                 ORDER BY a.at LIMIT attend.batch FOR UPDATE SKIP LOCKED LOOP
        items := items + 1;
        dag := NULL;
        schedule := item.id::text;
        made := '{}';
        own := CASE item.kind WHEN 'schedule' THEN item.id ELSE (SELECT r.schedule_id FROM oarlock.runs r WHERE r.run_id = item.id) END;
        BEGIN
            SELECT * INTO s FROM oarlock.schedules x WHERE x.schedule_id = own FOR NO KEY UPDATE SKIP LOCKED;
            SELECT * INTO of FROM oarlock.dags x WHERE x.dag_id = s.dag_id;
            dag := of.name;
            schedule := coalesce(s.name, schedule);
            IF own IS NULL -- the run was deleted
               OR item.kind = 'schedule' AND coalesce(s.paused_at, s.ended_at, of.removed_at) IS NOT NULL THEN -- changed since the item was read
                DELETE FROM oarlock.agenda a WHERE (a.kind, a.id, a.n) = (item.kind, item.id, item.n);
            ELSIF s.schedule_id IS NULL THEN -- another transaction edits the schedule, perhaps for long, perhaps with ten thousand others
                PERFORM oarlock.put_off(item, greatest(interval '100 milliseconds', least(interval '5 seconds', clock_timestamp() - coalesce(item.held_from, item.at))), recently);
            ELSIF item.kind = 'schedule' THEN
                made := ARRAY(SELECT x FROM oarlock.attend_schedule(item, s, of) x);
            ELSE
                made := ARRAY(SELECT x FROM oarlock.attend_end(item, s) x);
            END IF;
        EXCEPTION WHEN OTHERS THEN
            made := ARRAY[ROW('put off', 1, NULL, SQLERRM, NULL)::oarlock.decision];
            IF left(SQLSTATE, 2) IN ('08', '40', '53', '55', '57', '58') THEN
                PERFORM oarlock.put_off(item, interval '1 second', recently);
            ELSE
                made[1].outcome := 'failed';
                PERFORM oarlock.put_off(item, least(2 ^ least(item.errors, 6), 60) * interval '1 minute', recently);
                UPDATE oarlock.agenda a SET errors = item.errors + 1, error = SQLERRM WHERE (a.kind, a.id, a.n) = (item.kind, item.id, item.n);
            END IF;
        END;
        room := room - 1;
        FOREACH d IN ARRAY made LOOP
            kind := item.kind;
            outcome := d.outcome;
            times := d.times;
            late_ms := d.late_ms;
            message := d.message;
            lanes := lanes || d.lane_id;
            room := room - 1;
            RETURN NEXT;
        END LOOP;
        EXIT WHEN room <= 0 OR clock_timestamp() > began + interval '500 milliseconds';
    END LOOP;
    PERFORM oarlock.wake(l, count(*)) FROM unnest(lanes) l WHERE l IS NOT NULL GROUP BY l;
    IF items = batch OR room <= 0 OR clock_timestamp() > began + interval '500 milliseconds' THEN
        RETURN QUERY SELECT 'more', NULL, NULL, NULL, NULL::int, NULL::bigint, NULL;
    END IF;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.attend IS 'Internal: does what is due on the agenda.';

-- Keeping schedules ---------------------------------------------------------------------------------------------------

-- Makes or changes a schedule as a file or an application defines it. This fires nothing: a new schedule counts from now on, as
-- does a schedule after a change of its times. Any other change leaves the next time as it is.
-- +goose StatementBegin
CREATE FUNCTION oarlock.store_schedule(dag bigint, owner text, def jsonb) RETURNS oarlock.schedules
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v       oarlock.dag_versions;
    wanted  oarlock.schedules;
    kept    oarlock.schedules;
    made    oarlock.schedules;
    wrong   text;
BEGIN
    SELECT x.* INTO v FROM oarlock.dag_versions x JOIN oarlock.dags d ON d.dag_id = x.dag_id AND d.current_version = x.version WHERE x.dag_id = dag;
    SELECT k INTO wrong FROM jsonb_object_keys(def) k
     WHERE k <> ALL ('{name,cron,every,at,timezone,start,end,except,params,labels,overlap_policy,at_once,catchup,catchup_window,catchup_max,jitter,pause_on_failure,enabled}');
    IF FOUND THEN
        RAISE EXCEPTION 'a schedule has no %', left(wrong, 100) USING ERRCODE = 'OA013', HINT = 'its keys are the keys of `schedule:` in a file';
    END IF;
    BEGIN
        wanted.timing := oarlock.make_timing(def ->> 'cron', (def ->> 'every')::interval, (def ->> 'at')::timestamptz, coalesce(def ->> 'timezone', 'UTC'),
            (def ->> 'start')::timestamptz, (def ->> 'end')::timestamptz, ARRAY(SELECT jsonb_array_elements_text(def -> 'except')));
        wanted.at_once := coalesce((def ->> 'at_once')::int, 1);
        wanted.catchup := coalesce((def ->> 'catchup')::bool, false);
        wanted.overlap_policy := coalesce(def ->> 'overlap_policy', CASE WHEN wanted.catchup THEN 'all' ELSE 'skip' END); -- with skip, the run of the first missed time would have the others skipped
        wanted.catchup_window := extract(epoch FROM (def ->> 'catchup_window')::interval) * interval '1 second'; -- in seconds, since a day of a window has 24 hours
        wanted.catchup_max := coalesce((def ->> 'catchup_max')::int, 100);
        wanted.jitter_ms := coalesce(extract(epoch FROM (def ->> 'jitter')::interval) * 1000, 0);
        wanted.pause_on_failure := coalesce((def ->> 'pause_on_failure')::int, 0);
    EXCEPTION WHEN data_exception THEN
        RAISE EXCEPTION 'schedule: %', SQLERRM USING ERRCODE = 'OA013', HINT = 'durations are like 15m, times like 2026-11-20T03:00:00Z';
    END;
    wrong := CASE
        WHEN wanted.overlap_policy = 'allow' AND wanted.at_once > 1 THEN 'at_once has no effect with overlap_policy allow, which never holds a run back'
        WHEN def ? 'timezone' AND def ->> 'timezone' <> 'UTC' AND NOT def ?| '{cron,except}' THEN 'timezone works only with cron or except: every and at are the same in all time zones'
        WHEN def ? 'catchup_max' AND NOT wanted.catchup THEN 'catchup_max without catchup' END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'schedule: %', wrong USING ERRCODE = 'OA013', HINT = 'remove one of the two';
    END IF;
    SELECT k INTO wrong FROM unnest('{every,jitter,catchup_window}'::text[]) k WHERE def ->> k ~ '^[0-9. ]+$';
    IF FOUND THEN
        RAISE EXCEPTION 'schedule: % has no unit', wrong USING ERRCODE = 'OA013', HINT = 'durations are like 15m';
    END IF;
    wanted.params := coalesce(def -> 'params', '{}');
    wanted.labels := coalesce(def -> 'labels', '{}');
    wanted.name := coalesce(def ->> 'name', oarlock.timing_text(wanted.timing));
    PERFORM oarlock.check_schedule(wanted);
    PERFORM oarlock.check_labels('labels', wanted.labels);
    PERFORM oarlock.check_params(v.params, wanted.params, format('schedule %s: ', wanted.name));
    LOOP
        SELECT * INTO kept FROM oarlock.schedules x
         WHERE x.dag_id = dag AND coalesce(x.owner, '') = coalesce(owner, '') AND x.name = wanted.name AND x.ended_at IS NULL FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO oarlock.schedules (dag_id, name, owner, timing, params, labels, overlap_policy, at_once, catchup, catchup_window, catchup_max,
            jitter_ms, pause_on_failure, decided_at)
        VALUES (dag, wanted.name, owner, wanted.timing, wanted.params, wanted.labels, wanted.overlap_policy, wanted.at_once, wanted.catchup,
            wanted.catchup_window, wanted.catchup_max, wanted.jitter_ms, wanted.pause_on_failure, clock_timestamp())
        ON CONFLICT DO NOTHING RETURNING * INTO made;
        IF FOUND THEN
            PERFORM oarlock.arm_schedule(made);
            RETURN made;
        END IF;
    END LOOP;
    IF (wanted.timing, wanted.params, wanted.labels, wanted.overlap_policy, wanted.at_once, wanted.catchup, wanted.catchup_window, wanted.catchup_max,
        wanted.jitter_ms, wanted.pause_on_failure) IS NOT DISTINCT FROM
       (kept.timing, kept.params, kept.labels, kept.overlap_policy, kept.at_once, kept.catchup, kept.catchup_window, kept.catchup_max,
        kept.jitter_ms, kept.pause_on_failure) THEN
        RETURN kept;
    END IF;
    IF kept.timing <> wanted.timing THEN
        PERFORM oarlock.pass_over(kept, clock_timestamp(), 'dropped', 'the times were edited');
    END IF;
    UPDATE oarlock.schedules x
       SET timing = wanted.timing, params = wanted.params, labels = wanted.labels, overlap_policy = wanted.overlap_policy, at_once = wanted.at_once,
           catchup = wanted.catchup, catchup_window = wanted.catchup_window, catchup_max = wanted.catchup_max, jitter_ms = wanted.jitter_ms,
           pause_on_failure = wanted.pause_on_failure,
           decided_at = CASE WHEN x.timing = wanted.timing THEN x.decided_at ELSE greatest(x.decided_at, clock_timestamp()) END
     WHERE x.schedule_id = kept.schedule_id RETURNING x.* INTO made;
    IF made.timing <> kept.timing OR made.jitter_ms <> kept.jitter_ms
       AND NOT EXISTS (SELECT FROM oarlock.agenda a WHERE a.kind = 'schedule' AND a.id = made.schedule_id AND a.held_from IS NOT NULL) THEN
        PERFORM oarlock.arm_schedule(made);
    END IF;
    RETURN made;
END $$;
-- +goose StatementEnd

CREATE FUNCTION oarlock.timing_text(t oarlock.timing) RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN (t).cron IS NOT NULL THEN (t).cron
            WHEN (t).every_ms IS NOT NULL THEN 'every ' || justify_interval((t).every_ms * interval '1 millisecond')
            ELSE 'at ' || oarlock.utc_text((t).at) END;

-- +goose StatementBegin
CREATE FUNCTION oarlock.check_schedule(s oarlock.schedules) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wrong text[] := CASE
        WHEN octet_length(s.name) NOT BETWEEN 1 AND 100 THEN ARRAY['its name has 1 to 100 bytes', 'give it a shorter name']
        WHEN s.name ~ '#[0-9]+$' THEN ARRAY['its name ends in # and a number, as names of backfills do', 'give it another name']
        WHEN s.overlap_policy NOT IN ('skip', 'all', 'latest', 'cancel', 'allow') THEN
             ARRAY[format('overlap_policy is %s', left(s.overlap_policy, 100)), 'it is skip, all, latest, cancel or allow']
        WHEN s.at_once NOT BETWEEN 1 AND 1000 THEN ARRAY[format('at_once is %s', s.at_once), 'it is from 1 to 1000']
        WHEN s.catchup_window IS NOT NULL AND NOT s.catchup THEN ARRAY['catchup_window without catchup', 'add catchup: true']
        WHEN s.catchup_window <= '0' THEN ARRAY[format('catchup_window is %s', s.catchup_window), 'it is a duration such as 1d']
        WHEN s.catchup_max NOT BETWEEN 1 AND 1000 THEN ARRAY[format('catchup_max is %s', s.catchup_max), 'it is from 1 to 1000']
        WHEN s.jitter_ms NOT BETWEEN 0 AND 3600000 THEN ARRAY['jitter is more than an hour, or less than nothing', 'it is from 0 to 1h']
        WHEN s.jitter_ms > 0 AND s.jitter_ms * interval '1 millisecond' >= oarlock.shortest_gap(s.timing) THEN
             ARRAY[format('jitter is not less than the %s between two times', oarlock.shortest_gap(s.timing)), 'make it shorter']
        WHEN s.pause_on_failure < 0 THEN ARRAY[format('pause_on_failure is %s', s.pause_on_failure), 'it counts runs that fail in a row']
    END;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'schedule %: %', left(s.name, 100), wrong[1] USING ERRCODE = 'OA013', HINT = wrong[2];
    END IF;
END $$;
-- +goose StatementEnd

-- Ends a schedule and its backfills. Its runs and the outcomes of its times stay.
-- +goose StatementBegin
CREATE FUNCTION oarlock.end_schedule(id bigint) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE oarlock.schedules s SET ended_at = clock_timestamp() WHERE (s.schedule_id = end_schedule.id OR s.backfill_of = end_schedule.id) AND s.ended_at IS NULL;
    DELETE FROM oarlock.agenda a WHERE a.kind = 'schedule' AND a.id IN (
        SELECT s.schedule_id FROM oarlock.schedules s WHERE s.schedule_id = end_schedule.id OR s.backfill_of = end_schedule.id);
END;
-- +goose StatementEnd

-- Makes the schedules of a DAG that have no owner exactly the schedules of its file.
-- +goose StatementBegin
CREATE FUNCTION oarlock.sync_schedules(dag bigint, defs jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    def  jsonb;
    kept bigint[] := '{}';
BEGIN
    FOR def IN SELECT d FROM jsonb_array_elements(defs) d WHERE d -> 'enabled' IS DISTINCT FROM 'false' LOOP
        kept := kept || (oarlock.store_schedule(dag, NULL, def)).schedule_id;
    END LOOP;
    PERFORM oarlock.end_schedule(s.schedule_id) FROM oarlock.schedules s
      WHERE s.dag_id = sync_schedules.dag AND s.owner IS NULL AND s.ended_at IS NULL AND s.backfill_of IS NULL AND s.schedule_id <> ALL (kept);
END $$;
-- +goose StatementEnd

-- Starts the schedules of a DAG again that was removed and is back: they count from now on. Its backfills go on where they stood.
-- +goose StatementBegin
CREATE FUNCTION oarlock.place_schedules(dag bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    s oarlock.schedules;
BEGIN
    FOR s IN UPDATE oarlock.schedules x SET decided_at = CASE WHEN x.backfill_of IS NULL THEN greatest(x.decided_at, clock_timestamp()) ELSE x.decided_at END
              WHERE x.dag_id = place_schedules.dag AND x.ended_at IS NULL RETURNING * LOOP
        PERFORM oarlock.arm_schedule(s);
    END LOOP;
END $$;
-- +goose StatementEnd

-- Deletes outcomes of fire times, and ended schedules, after as many days as the DAG keeps runs.
-- +goose StatementBegin
CREATE FUNCTION oarlock.prune_fires(batch int) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM oarlock.fires f
     WHERE f.ctid = ANY (ARRAY(
           SELECT old.ctid FROM oarlock.schedules s
             JOIN oarlock.dags d USING (dag_id)
             JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version AND v.retention_days > 0
            CROSS JOIN LATERAL (SELECT x.ctid FROM oarlock.fires x
                                 WHERE x.schedule_id = s.schedule_id AND (x.logical_at < clock_timestamp() - v.retention_days * interval '1 day' OR s.ended_at IS NOT NULL)
                                   AND x.decided_at < clock_timestamp() - v.retention_days * interval '1 day' LIMIT prune_fires.batch) old
            LIMIT prune_fires.batch));
    DELETE FROM oarlock.schedules x
     WHERE x.schedule_id = ANY (ARRAY(
           SELECT s.schedule_id FROM oarlock.schedules s
             JOIN oarlock.dags d USING (dag_id)
             JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version AND v.retention_days > 0
            WHERE s.ended_at < clock_timestamp() - v.retention_days * interval '1 day'
              AND NOT EXISTS (SELECT FROM oarlock.runs r WHERE r.schedule_id = s.schedule_id AND r.retry_of IS NULL) -- two conditions, one for each partial index
              AND NOT EXISTS (SELECT FROM oarlock.runs r WHERE r.schedule_id = s.schedule_id AND r.retry_of IS NOT NULL)
              AND NOT EXISTS (SELECT FROM oarlock.fires f WHERE f.schedule_id = s.schedule_id)
            LIMIT prune_fires.batch));
END;
-- +goose StatementEnd

-- Returns the schedule of a name, with an owner if one is given (empty: the file). Otherwise it prefers a schedule of the
-- session user, then one of the file, then one of another user. With `past` it also finds a backfill that is over.
-- +goose StatementBegin
CREATE FUNCTION oarlock.find_schedule(dag text, name text, owner text, for_all bool, past bool DEFAULT false) RETURNS oarlock.schedules
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    s oarlock.schedules;
BEGIN
    SELECT x.* INTO s FROM oarlock.schedules x JOIN oarlock.dags d USING (dag_id)
     WHERE d.name = dag AND x.name = name AND (x.ended_at IS NULL OR past AND x.backfill_of IS NOT NULL) AND (for_all OR x.owner = session_user) AND (owner IS NULL OR coalesce(x.owner, '') = owner)
     ORDER BY x.owner = session_user DESC NULLS LAST, x.owner NULLS FIRST LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'dag % has no schedule %', left(dag, 100), concat_ws(' ', left(name, 100), CASE WHEN NOT for_all THEN 'of yours' ELSE 'of ' || nullif(owner, '') END)
            USING ERRCODE = 'OA016', HINT = 'see SELECT * FROM oarlock.schedule_list()';
    END IF;
    RETURN s;
END $$;
-- +goose StatementEnd

-- Raises OA002 if a DAG was removed.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_removed(d oarlock.dags) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF d.removed_at IS NOT NULL THEN
        RAISE EXCEPTION 'dag % was removed', d.name USING ERRCODE = 'OA002', HINT = 'apply it again: oarlock dag apply FILE';
    END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.lock_schedule(dag text, name text, owner text) RETURNS oarlock.schedules
LANGUAGE plpgsql AS $$
DECLARE
    s oarlock.schedules := oarlock.find_schedule(dag, name, owner, oarlock.operates());
BEGIN
    SELECT * INTO s FROM oarlock.schedules x WHERE x.schedule_id = s.schedule_id FOR NO KEY UPDATE;
    IF s.ended_at IS NOT NULL THEN -- dropped meanwhile, and another schedule may have its name now
        s := oarlock.lock_schedule(dag, name, owner);
    END IF;
    RETURN s;
END $$;
-- +goose StatementEnd

-- Raises OA012 if the session user has too many schedules.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_number() RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT oarlock.operates() AND (SELECT count(*) > 10000 FROM oarlock.schedules x WHERE x.owner = session_user AND x.ended_at IS NULL) THEN
        RAISE EXCEPTION '% has 10000 schedules already', session_user USING ERRCODE = 'OA012', HINT = 'drop some: oarlock.drop_schedule';
    END IF;
END $$;
-- +goose StatementEnd

-- Makes or changes a schedule of the session user.
-- +goose StatementBegin
CREATE FUNCTION oarlock.put_own(dag text, def jsonb) RETURNS oarlock.schedules
LANGUAGE plpgsql AS $$
DECLARE
    d oarlock.dags;
    s oarlock.schedules;
BEGIN
    SELECT * INTO d FROM oarlock.dags x WHERE x.name = dag;
    PERFORM oarlock.check_dag(FOUND, dag);
    PERFORM oarlock.check_removed(d);
    PERFORM oarlock.check_owner(d, session_user);
    s := oarlock.store_schedule(d.dag_id, session_user, def);
    IF NOT oarlock.operates() AND (s.timing).every_ms < 10000 THEN
        RAISE EXCEPTION 'schedule %: every is less than 10 seconds', s.name USING ERRCODE = 'OA013', HINT = 'administrators may have it down to 1s';
    END IF;
    RETURN s;
END $$;
-- +goose StatementEnd

-- Returns when a schedule fires next, jitter included; null: never, or it is paused, or something holds it back.
CREATE FUNCTION oarlock.next_of(s oarlock.schedules) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN (SELECT a.at FROM oarlock.agenda a WHERE a.kind = 'schedule' AND a.id = (s).schedule_id AND a.held_from IS NULL);

-- +goose StatementBegin
CREATE FUNCTION oarlock.put_schedule(dag text, name text, cron text DEFAULT NULL, every interval DEFAULT NULL, at timestamptz DEFAULT NULL,
    timezone text DEFAULT NULL, params jsonb DEFAULT NULL, labels jsonb DEFAULT NULL, overlap_policy text DEFAULT NULL, at_once int DEFAULT NULL,
    catchup bool DEFAULT NULL, catchup_window interval DEFAULT NULL, catchup_max int DEFAULT NULL, jitter interval DEFAULT NULL,
    start_at timestamptz DEFAULT NULL, end_at timestamptz DEFAULT NULL, except_at text[] DEFAULT NULL, pause_on_failure int DEFAULT NULL,
    OUT schedule_id bigint, OUT next_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s oarlock.schedules;
BEGIN
    IF name IS NULL THEN
        RAISE EXCEPTION 'a schedule needs a name' USING ERRCODE = 'OA013', HINT = 'give it a name that stays the same when its times change';
    END IF;
    s := oarlock.put_own(dag, jsonb_strip_nulls(jsonb_build_object('name', name, 'cron', cron, 'every', every, 'at', at, 'timezone', timezone,
        'labels', labels, 'overlap_policy', overlap_policy, 'at_once', at_once, 'catchup', catchup, 'catchup_window', catchup_window,
        'catchup_max', catchup_max, 'jitter', jitter, 'start', start_at, 'end', end_at, 'except', to_jsonb(except_at),
        'pause_on_failure', pause_on_failure)) || jsonb_build_object('params', coalesce(params, '{}')));
    PERFORM oarlock.check_number();
    schedule_id := s.schedule_id;
    next_at := oarlock.next_of(s);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.put_schedule IS $$Makes or changes a schedule that belongs to your login. Returns the number of the schedule, and the time when the schedule fires next. The DAG must say `allow: {schedules: true}`, except for members of `oarlock_admin`.

Pass exactly one of `cron`, `every` and `at`. `every` is at least 10 seconds, and for members of `oarlock_admin` at least 1 second. The other arguments mean the same as the keys of `schedule:` in a DAG file. The runs of the schedule belong to your login, as if you had enqueued the runs.

The schedule exists when your transaction commits. If you repeat a call with the same arguments, the call changes nothing. The call does not start a run. A new schedule, or a schedule with changed times, fires only at times after the call.

```sql
SELECT next_at FROM oarlock.put_schedule('report', 'acme nightly', cron => '30 3 * * 1-5', timezone => 'Europe/Paris', params => '{"day": "2026-11-20"}');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.put_schedules(schedules jsonb, dag text DEFAULT NULL) RETURNS TABLE (dag_name text, name text, schedule_id bigint, next_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    def  jsonb;
    s    oarlock.schedules;
    kept bigint[] := '{}';
BEGIN
    IF jsonb_typeof(schedules) IS DISTINCT FROM 'array' OR jsonb_array_length(schedules) > 10000 THEN
        RAISE EXCEPTION 'schedules is an array of at most 10000 objects' USING ERRCODE = 'OA013',
            HINT = 'like [{"dag": "report", "name": "nightly", "cron": "30 3 * * *"}]; an empty one drops all';
    END IF;
    FOR def IN SELECT d FROM jsonb_array_elements(schedules) d ORDER BY d ->> 'dag', d ->> 'name' LOOP
        dag_name := CASE WHEN def ? 'dag' THEN def ->> 'dag' ELSE put_schedules.dag END;
        IF jsonb_typeof(def) <> 'object' OR jsonb_typeof(def -> 'name') IS DISTINCT FROM 'string' OR (dag_name = coalesce(put_schedules.dag, dag_name)) IS NOT TRUE THEN
            RAISE EXCEPTION 'each schedule has a name, and a dag that is %', coalesce(put_schedules.dag, 'named') USING ERRCODE = 'OA013',
                HINT = 'like {"dag": "report", "name": "nightly", "cron": "30 3 * * *"}';
        END IF;
        CONTINUE WHEN def -> 'enabled' = 'false';
        s := oarlock.put_own(dag_name, def - 'dag');
        IF s.schedule_id = ANY (kept) THEN
            RAISE EXCEPTION 'schedule % is there twice', s.name USING ERRCODE = 'OA013', HINT = 'names are unique within a dag';
        END IF;
        kept := kept || s.schedule_id;
        name := s.name;
        schedule_id := s.schedule_id;
        next_at := oarlock.next_of(s);
        RETURN NEXT;
    END LOOP;
    PERFORM oarlock.end_schedule(x.schedule_id) FROM oarlock.schedules x JOIN oarlock.dags d USING (dag_id)
      WHERE x.owner = session_user AND x.ended_at IS NULL AND x.backfill_of IS NULL AND x.schedule_id <> ALL (kept) AND (put_schedules.dag IS NULL OR d.name = put_schedules.dag);
    PERFORM oarlock.check_number();
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.put_schedules IS $$Replaces all schedules of your login by the schedules in `schedules`. With the argument `dag`, the call replaces only your schedules of this DAG. The call drops your schedules that are not in `schedules`; with the argument `dag`, the call drops only schedules of this DAG. `oarlock.put_schedules` makes all its changes in one transaction. If you repeat a call with the same arguments, the call changes nothing.

Each element of `schedules` has a `name` and the keys of `schedule:` in a DAG file. Without the argument `dag`, each element also has the key `dag`.

```sql
SELECT name, next_at FROM oarlock.put_schedules('[{"name": "nightly", "cron": "30 3 * * *", "params": {"day": "2026-11-20"}}, {"name": "often", "every": "15m", "params": {"day": "2026-11-20"}}]', 'report');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.drop_schedule(dag text, name text, owner text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s oarlock.schedules := oarlock.lock_schedule(dag, name, owner);
BEGIN
    IF s.owner IS NULL AND s.backfill_of IS NULL THEN
        RAISE EXCEPTION 'schedule % is in the file of dag %', name, dag USING ERRCODE = 'OA013', HINT = 'delete it in the file and apply the file, or pause the schedule';
    END IF;
    PERFORM oarlock.end_schedule(s.schedule_id);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.drop_schedule IS $$Drops a schedule that belongs to your login. Administrators drop a schedule of any `owner`. Runs of the schedule that exist go on, and backfills of the schedule end. To end a single backfill, pass its name, for example `nightly#12`.

```sql
SELECT oarlock.drop_schedule('report', 'acme nightly');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.pause_schedule(dag text, name text, note text DEFAULT NULL, owner text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s oarlock.schedules := oarlock.lock_schedule(dag, name, owner);
BEGIN
    UPDATE oarlock.schedules x
       SET paused_by = oarlock.who(), paused_at = coalesce(x.paused_at, clock_timestamp()), pause_note = coalesce(left(note, 1000), x.pause_note)
     WHERE x.schedule_id = s.schedule_id;
    DELETE FROM oarlock.agenda a WHERE a.kind = 'schedule' AND a.id = s.schedule_id;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.pause_schedule IS $$Pauses a schedule that belongs to your login. Administrators pause any schedule. A paused schedule does not fire until you resume the schedule. Runs of the schedule that exist go on.

```sql
SELECT oarlock.pause_schedule('report', 'acme nightly', note => 'until the new disks are in');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.resume_schedule(dag text, name text, catch_up bool DEFAULT false, owner text DEFAULT NULL, OUT next_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s   oarlock.schedules := oarlock.lock_schedule(dag, name, owner);
    now timestamptz := clock_timestamp();
BEGIN
    IF s.paused_by IS NOT NULL THEN
        IF s.backfill_of IS NULL AND NOT coalesce(catch_up, false) THEN
            PERFORM oarlock.pass_over(s, s.paused_at, 'skipped', 'held back when it was paused');
            s.decided_at := greatest(s.decided_at, s.paused_at);
            PERFORM oarlock.pass_over(s, now, 'skipped', 'paused by ' || s.paused_by);
            s.decided_at := greatest(s.decided_at, now);
        END IF;
        UPDATE oarlock.schedules x SET paused_by = NULL, paused_at = NULL, pause_note = NULL, failures = 0, decided_at = s.decided_at
         WHERE x.schedule_id = s.schedule_id RETURNING * INTO s;
        PERFORM oarlock.arm_schedule(s);
    END IF;
    next_at := oarlock.next_of(s);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.resume_schedule IS $$Resumes a paused schedule that belongs to your login, and returns the time when the schedule fires next. Administrators resume any schedule. A resumed schedule fires only at times after the call.

With `catch_up => true`, Oarlock also decides the fire times during the pause, in the same way as fire times during an outage: by `catchup`, `catchup_window` and `catchup_max` of the schedule. Backfills make no difference: with `catch_up => true`, Oarlock decides a fire time during the pause even if a backfill made a run for the fire time. If you resume a paused backfill, the backfill goes on at the time where it stopped.

```sql
SELECT next_at FROM oarlock.resume_schedule('report', 'acme nightly');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.trigger_schedule(dag text, name text, logical_at timestamptz DEFAULT now(), owner text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s    oarlock.schedules := oarlock.lock_schedule(dag, name, owner);
    at   timestamptz := coalesce(logical_at, now());
    had  bigint := (SELECT f.run_id FROM oarlock.fires f WHERE f.schedule_id = s.schedule_id AND f.logical_at = at AND f.outcome = 'fired');
    d    oarlock.dags;
    made record;
BEGIN
    IF NOT oarlock.is_in_known_years(at) THEN
        RAISE EXCEPTION 'logical_at must be a moment of the years 20 to 9899' USING ERRCODE = 'OA013', HINT = 'leave it out for now';
    ELSIF had IS NOT NULL THEN
        RETURN had;
    END IF;
    SELECT * INTO d FROM oarlock.dags x WHERE x.dag_id = s.dag_id;
    PERFORM oarlock.check_removed(d);
    PERFORM oarlock.forget_time(s, at);
    made := oarlock.make_run(s, d, at, 'manual', 'triggered by ' || oarlock.who());
    UPDATE oarlock.runs r SET actor = NULL WHERE r.run_id = made.run AND r.actor IS NOT NULL; -- the owner of the schedule submitted it; the user that triggered it is named in its events
    PERFORM oarlock.wake(made.lane, 1);
    RETURN made.run;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.trigger_schedule IS $$Starts a run of a schedule that belongs to your login now, and returns the number of the run. Administrators start a run of any schedule. The call makes a run even if the schedule is paused, or an earlier run of the schedule has not ended. If the schedule already has a run for the `logical_at` of the call, the call returns the existing run.

```sql
SELECT oarlock.trigger_schedule('report', 'acme nightly', logical_at => '2026-11-20T02:30:00Z');
```$$;
-- +goose StatementEnd

-- Seeing schedules ----------------------------------------------------------------------------------------------------

-- +goose StatementBegin
CREATE FUNCTION oarlock.schedule_list(dag text DEFAULT NULL, owner text DEFAULT NULL, rows int DEFAULT 1000, after bigint DEFAULT 0, name text DEFAULT NULL)
RETURNS TABLE (id bigint, dag_name text, name text, schedule_owner text, cron text, every interval, at timestamptz, timezone text, start_at timestamptz,
    end_at timestamptz, except_at text[], params jsonb, labels jsonb, overlap_policy text, at_once int, catchup bool, catchup_window interval,
    catchup_max int, jitter interval, pause_on_failure int, paused_by text, paused_at timestamptz, pause_note text, next_at timestamptz,
    last_at timestamptz, last_outcome text, last_run bigint, last_reason text, unfinished bigint, failures int, errors int, error text,
    backfill_of bigint, from_at timestamptz, until_at timestamptz, reprocess text, newest_first bool, decided_at timestamptz,
    held_from timestamptz, dag_removed_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT s.schedule_id, d.name, s.name, s.owner, (s.timing).cron, (s.timing).every_ms * interval '1 millisecond', (s.timing).at, (s.timing).timezone,
           (s.timing).start_at, (s.timing).end_at, (s.timing).except_at, s.params, s.labels, s.overlap_policy, s.at_once, s.catchup, s.catchup_window,
           s.catchup_max, s.jitter_ms * interval '1 millisecond', s.pause_on_failure, s.paused_by, s.paused_at, s.pause_note,
           CASE WHEN d.removed_at IS NULL AND a.held_from IS NULL THEN a.at END,
           f.logical_at, f.outcome, f.run_id, f.reason,
           (SELECT count(*) FROM oarlock.runs r WHERE r.schedule_id = s.schedule_id AND r.finished_at IS NULL),
           s.failures, coalesce(a.errors, 0), coalesce(a.error, ''), s.backfill_of, s.from_at, s.until_at, s.reprocess, s.newest_first, s.decided_at,
           a.held_from, d.removed_at
      FROM oarlock.schedules s
      JOIN oarlock.dags d USING (dag_id)
      LEFT JOIN oarlock.agenda a ON a.kind = 'schedule' AND a.id = s.schedule_id
      LEFT JOIN LATERAL (SELECT * FROM oarlock.fires x WHERE x.schedule_id = s.schedule_id AND x.logical_at <= clock_timestamp() ORDER BY x.logical_at DESC LIMIT 1) f ON true
     WHERE s.ended_at IS NULL AND s.schedule_id > coalesce(schedule_list.after, 0) AND (s.owner = session_user OR oarlock.sees_all())
       AND (schedule_list.dag IS NULL OR d.name = schedule_list.dag) AND (schedule_list.owner IS NULL OR coalesce(s.owner, '') = schedule_list.owner)
       AND (schedule_list.name IS NULL OR s.name = schedule_list.name)
     ORDER BY s.schedule_id LIMIT oarlock.check_rows(schedule_list.rows, 1000);
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.schedule_list IS $$Returns the schedules of your login, in the order of their numbers. Logins with the role `oarlock_read`, `oarlock_worker` or `oarlock_admin` see all schedules. To get the next schedules of the list, pass the last id of a call to the next call as `after`.

- `schedule_owner`: the login that owns the schedule, or `''` for a schedule of a DAG file. The argument `owner` selects schedules by `schedule_owner`.
- `held_from`: the time since which the schedule is held back by a run that has not ended, a full queue or an error. While a schedule is held back, `next_at` is null.
- `last_at`, `last_outcome`, `last_run`, `last_reason`: the newest fire time that Oarlock has decided, with its outcome, run and reason.
- `unfinished`: the number of runs of the schedule that have not ended.
- `failures`: the number of runs of the schedule that failed in a row.
- `decided_at`: Oarlock has decided all fire times of the schedule up to `decided_at`. For a backfill with `newest_first`, Oarlock has decided all fire times from `decided_at` on.

```sql
SELECT dag_name, name, next_at, last_outcome FROM oarlock.schedule_list('report');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.schedule_fires(dag text, name text, since timestamptz DEFAULT '-infinity', rows int DEFAULT 100, owner text DEFAULT NULL)
RETURNS TABLE (logical_at timestamptz, until timestamptz, times int, outcome text, run bigint, run_state text, reason text, decided_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s oarlock.schedules := oarlock.find_schedule(dag, name, owner, oarlock.sees_all(), past => true);
BEGIN
    RETURN QUERY SELECT f.logical_at, f.until, f.count, f.outcome, f.run_id, r.state, f.reason, f.decided_at
                   FROM oarlock.fires f LEFT JOIN oarlock.runs r ON r.run_id = f.run_id
                  WHERE f.schedule_id = s.schedule_id AND coalesce(f.until, f.logical_at) >= coalesce(schedule_fires.since, '-infinity')
                  ORDER BY f.logical_at DESC LIMIT oarlock.check_rows(schedule_fires.rows, 100);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.schedule_fires IS $$Returns the decisions about the fire times of a schedule, the newest first. `outcome` is one of:

- `fired`: Oarlock made a run for the fire time.
- `skipped`: an earlier run of the schedule had not ended, or the schedule was paused.
- `dropped`: Oarlock decided the fire time too late to make a run.
- `refused`: Oarlock could not make a run for the fire time. `reason` says why.

One row can stand for several fire times with the same outcome, from `logical_at` to `until`. `times` is the number of fire times of the row, or null for more than 1,000 fire times.

```sql
SELECT logical_at, outcome, run, reason FROM oarlock.schedule_fires('report', 'acme nightly', since => now() - interval '7 days');
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.schedule_times(dag text, name text, n int DEFAULT 5, owner text DEFAULT NULL) RETURNS SETOF timestamptz
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s  oarlock.schedules := oarlock.find_schedule(dag, name, owner, oarlock.sees_all());
BEGIN
    n := coalesce(n, 5);
    IF n NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'n is from 1 to 1000, not %', n USING ERRCODE = 'OA013', HINT = 'begin from another time with oarlock.cron_times';
    END IF;
    s.decided_at := CASE WHEN s.backfill_of IS NULL THEN greatest(s.decided_at, clock_timestamp()) ELSE s.decided_at END;
    FOR i IN 1 .. n LOOP
        s.decided_at := oarlock.coming_of(s);
        EXIT WHEN s.decided_at IS NULL;
        RETURN NEXT s.decided_at;
    END LOOP;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.schedule_times IS $$Returns the next `n` fire times of a schedule, without the jitter of the schedule. For a paused schedule, the function returns the fire times as if the schedule were not paused.

```sql
SELECT * FROM oarlock.schedule_times('report', 'acme nightly', 3);
```$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION oarlock.schedule_times(text, text, int, text);
DROP FUNCTION oarlock.schedule_fires(text, text, timestamptz, int, text);
DROP FUNCTION oarlock.schedule_list(text, text, int, bigint, text);
DROP FUNCTION oarlock.trigger_schedule(text, text, timestamptz, text);
DROP FUNCTION oarlock.resume_schedule(text, text, bool, text);
DROP FUNCTION oarlock.pause_schedule(text, text, text, text);
DROP FUNCTION oarlock.drop_schedule(text, text, text);
DROP FUNCTION oarlock.put_schedules(jsonb, text);
DROP FUNCTION oarlock.put_schedule(text, text, text, interval, timestamptz, text, jsonb, jsonb, text, int, bool, interval, int, interval, timestamptz, timestamptz, text[], int);
DROP FUNCTION oarlock.next_of(oarlock.schedules);
DROP FUNCTION oarlock.put_own(text, jsonb);
DROP FUNCTION oarlock.check_number();
DROP FUNCTION oarlock.lock_schedule(text, text, text);
DROP FUNCTION oarlock.check_removed(oarlock.dags);
DROP FUNCTION oarlock.find_schedule(text, text, text, bool, bool);
DROP FUNCTION oarlock.prune_fires(int);
DROP FUNCTION oarlock.place_schedules(bigint);
DROP FUNCTION oarlock.sync_schedules(bigint, jsonb);
DROP FUNCTION oarlock.end_schedule(bigint);
DROP FUNCTION oarlock.check_schedule(oarlock.schedules);
DROP FUNCTION oarlock.timing_text(oarlock.timing);
DROP FUNCTION oarlock.store_schedule(bigint, text, jsonb);
DROP FUNCTION oarlock.attend(timestamptz, int);
DROP FUNCTION oarlock.attend_end(oarlock.agenda, oarlock.schedules);
DROP FUNCTION oarlock.attend_schedule(oarlock.agenda, oarlock.schedules, oarlock.dags);
DROP FUNCTION oarlock.cancel_oldest(oarlock.schedules);
DROP FUNCTION oarlock.put_off(oarlock.agenda, interval, timestamptz);
DROP FUNCTION oarlock.fires_above(oarlock.schedules, timestamptz, timestamptz, timestamptz);
DROP FUNCTION oarlock.fire(oarlock.schedules, oarlock.dags, timestamptz, bool);
DROP FUNCTION oarlock.make_run(oarlock.schedules, oarlock.dags, timestamptz, text, text);
DROP FUNCTION oarlock.check_owner(oarlock.dags, text);
DROP FUNCTION oarlock.forget_time(oarlock.schedules, timestamptz);
DROP FUNCTION oarlock.record_stretch(oarlock.schedules, timestamptz, timestamptz, text, text);
DROP FUNCTION oarlock.pass_over(oarlock.schedules, timestamptz, text, text);
DROP FUNCTION oarlock.count_times(oarlock.timing, timestamptz, timestamptz, int);
DROP FUNCTION oarlock.arm_schedule(oarlock.schedules);
DROP FUNCTION oarlock.coming_of(oarlock.schedules);
DROP FUNCTION oarlock.jitter_of(oarlock.schedules, timestamptz);
DROP TYPE oarlock.decision;
DROP TABLE oarlock.fires;
DROP TRIGGER runs_ended ON oarlock.runs;
DROP FUNCTION oarlock.run_ended();
DROP TABLE oarlock.schedules;
DROP FUNCTION oarlock.is_sound_schedule(text, text, int, int, int, int, text, timestamptz, bigint, timestamptz, timestamptz, text, bool);
DROP TABLE oarlock.agenda;
