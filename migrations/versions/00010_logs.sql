-- +goose Up

-- Whether a follower reads the log of the run. The log of a run is flushed at once only for such followers: a client that waits for
-- the end of a run does not need it.
ALTER TABLE oarlock.followers ADD COLUMN logs bool NOT NULL DEFAULT true;

-- Following ---------------------------------------------------------------------------------------------------------

-- +goose StatementBegin
CREATE FUNCTION oarlock.follow(run bigint, channel text, seconds int DEFAULT 60, logs bool DEFAULT true) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    r    oarlock.runs;
    ends timestamptz := clock_timestamp() + seconds * interval '1 second';
BEGIN
    SELECT * INTO r FROM oarlock.visible_run(run);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no run %, or it is not yours', run USING ERRCODE = 'OA007', TABLE = 'runs', HINT = 'SELECT run_id FROM oarlock.inbox shows your runs';
    ELSIF channel IS NULL OR octet_length(channel) NOT BETWEEN 1 AND 63 OR seconds IS NULL OR seconds NOT BETWEEN 1 AND 3600 THEN
        RAISE EXCEPTION 'channel is a name of 1 to 63 bytes, seconds are from 1 to 3600' USING ERRCODE = 'OA013', HINT = 'call it again before the time is over';
    ELSIF r.finished_at IS NOT NULL THEN
        RETURN NULL;
    END IF;
    DELETE FROM oarlock.followers f WHERE f.run_id = run AND f.until < clock_timestamp();
    -- Each follower costs the worker of the run a notification per append. The bound is soft, since followers that other
    -- transactions insert at the same time are not seen.
    IF (SELECT count(*) FROM oarlock.followers f WHERE f.run_id = run AND f.channel <> follow.channel) >= 100 THEN
        RAISE EXCEPTION 'run % has 100 followers already', run USING ERRCODE = 'OA012', HINT = 'ask again every second instead';
    END IF;
    INSERT INTO oarlock.followers (run_id, channel, until, logs) VALUES (run, channel, ends, coalesce(logs, true))
        ON CONFLICT (run_id, channel) DO UPDATE SET until = excluded.until, logs = excluded.logs;
    -- Notify the worker that holds the run now: it may have claimed the run since the first look. A worker that claims it later
    -- sees the row above.
    PERFORM pg_notify(w.channel, 'log:' || run)
       FROM oarlock.runs c JOIN oarlock.workers w USING (worker_id) WHERE c.run_id = run AND coalesce(logs, true);
    RETURN ends;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.follow IS $$Lets Oarlock notify a channel of each change of a run, for a number of seconds. Type `LISTEN` with the name of the channel before you call `oarlock.follow`.

Each notification has the text `run:` and the number of the run. A notification can get lost, so also read the state of the run about once a second. With `logs => true`, the worker writes the output of tasks to the database at once, and notifies the channel of new output. With `logs => false`, Oarlock notifies the channel only of changes of the run.

`oarlock.follow` returns the time at which the notifications end, or null if the run has ended. A run has at most 100 followers.

```sql
LISTEN my_channel;
```

```sql
SELECT oarlock.follow(41, 'my_channel', logs => false);
```$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION oarlock.unfollow(run bigint, channel text) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM oarlock.followers f USING oarlock.visible_run(run) r WHERE f.run_id = r.run_id AND f.channel = unfollow.channel;
    RETURN FOUND;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.unfollow IS $$Ends the notifications that `oarlock.follow` began for a run and a channel. Returns true if the channel followed the run.

```sql
SELECT oarlock.unfollow(41, 'my_channel');
```$$;
-- +goose StatementEnd

-- Reading -----------------------------------------------------------------------------------------------------------

-- Returns the names of the steps of a run by number, if the session user may see the run. They never change, since a run keeps its
-- version.
-- +goose StatementBegin
CREATE FUNCTION oarlock.log_steps(run bigint) RETURNS TABLE (step int, name text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT s.step, s.name
      FROM oarlock.visible_run(run) r
      JOIN oarlock.dag_versions v USING (dag_id, version)
     CROSS JOIN oarlock.steps_of(v.spec) s;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.log_steps(bigint) IS 'Internal: the steps of a run by number.';

-- Returns each attempt that may have a log, of the tasks that changed since a record. Epoch and seq number the task records of
-- a run in the order in which they commit. One row without a task means that no task changed; no row means that there is no
-- such run.
-- +goose StatementBegin
CREATE FUNCTION oarlock.log_attempts(run bigint, since_epoch int, since_seq bigint, only_step int, only_item text, only_alt int)
RETURNS TABLE (over bool, epoch int, seq bigint, step int, item text, alt int, attempt int, log_day date, began timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT r.finished_at IS NOT NULL, t.epoch, t.seq, t.step, t.item, t.alt, l.attempt, l.log_day, l.began
      FROM oarlock.visible_run(run) r
      LEFT JOIN (oarlock.tasks t
           CROSS JOIN LATERAL (
                 SELECT t.attempt, t.log_day, t.attempt_at AS began
                 UNION ALL
                 SELECT a.attempt, a.log_day, a.started_at FROM oarlock.attempts a
                  WHERE a.run_id = t.run_id AND a.step = t.step AND a.item = t.item AND a.alt = t.alt) l)
        ON t.run_id = r.run_id AND (t.epoch, t.seq) > (since_epoch, since_seq) AND l.log_day IS NOT NULL
       AND (only_step IS NULL OR (t.step, t.item, t.alt) = (only_step, only_item, only_alt))
     ORDER BY t.step, t.item, t.alt, l.attempt;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.log_attempts(bigint, int, bigint, int, text, int) IS 'Internal: the attempts of a run that may have a log.';

-- Returns how an attempt ended that wrote nothing, with the time of its end. Such an attempt has no chunk, and its end is only
-- in the row of its task or attempt. All attempts of a lost driver get a final marker, so an attempt without a chunk ended
-- under its driver, and its log is complete.
-- +goose StatementBegin
CREATE FUNCTION oarlock.silent_end(run bigint, of_step int, of_item text, of_alt int, of_attempt int, day date)
RETURNS TABLE (at timestamptz, word text)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce(e.finished_at, e.began, to_timestamp(0)), e.word
      FROM (SELECT 1 AS rank, a.finished_at, a.started_at AS began, coalesce(a.failure_kind, a.state) AS word FROM oarlock.attempts a
             WHERE a.run_id = run AND a.step = of_step AND a.item = of_item AND a.alt = of_alt AND a.attempt = of_attempt
            UNION ALL
            SELECT 2, t.finished_at, t.attempt_at, coalesce(t.failure_kind, t.state) FROM oarlock.tasks t
             WHERE t.run_id = run AND t.step = of_step AND t.item = of_item AND t.alt = of_alt AND t.attempt = of_attempt
               AND t.state NOT IN ('running', 'finishing', 'waiting') AND NOT (t.state = 'retrying' AND t.publishing)) e
     WHERE NOT EXISTS (SELECT FROM oarlock.log_chunks c
                        WHERE c.log_day = day AND c.run_id = run AND c.step = of_step AND c.item = of_item AND c.alt = of_alt AND c.attempt = of_attempt)
     ORDER BY e.rank LIMIT 1;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.silent_end(bigint, int, text, int, int, date) IS 'Internal: how an attempt ended that wrote nothing.';

-- Returns chunks of several attempts of a run, of each at most max_each from a number on, attempt by attempt in the order
-- given. place is the index of the attempt in the arrays. A log that ended without a chunk gets its final chunk here.
-- +goose StatementBegin
CREATE FUNCTION oarlock.read_chunks(run bigint, steps int[], items text[], alts int[], attempts int[], days date[], froms int[], max_rows int,
    max_each int)
RETURNS TABLE (place int, seq int, stream smallint, at timestamptz, data bytea, final bool, reason text, dropped_bytes bigint, lines bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT w.n::int, c.seq, c.stream, c.at, c.data, c.final, c.reason, c.dropped_bytes, c.lines
      FROM oarlock.visible_run(run) r
     CROSS JOIN unnest(steps, items, alts, attempts, days, froms) WITH ORDINALITY w (step, item, alt, attempt, log_day, first, n)
     CROSS JOIN LATERAL (
           (SELECT x.seq, x.stream, x.at, x.data, x.final, x.reason, x.dropped_bytes, x.lines -- one range of the key in one partition
              FROM oarlock.log_chunks x
             WHERE x.log_day = w.log_day AND x.run_id = r.run_id AND x.step = w.step AND x.item = w.item AND x.alt = w.alt
               AND x.attempt = w.attempt AND x.seq >= coalesce(w.first, 0)
             ORDER BY x.seq LIMIT coalesce(max_each, 1000))
           UNION ALL
           SELECT 0, 0::smallint, e.at, ''::bytea, true, e.word, 0, 0
             FROM oarlock.silent_end(r.run_id, w.step, w.item, w.alt, w.attempt, w.log_day) e
            WHERE coalesce(w.first, 0) = 0 AND coalesce(max_each, 1000) > 0) c
     ORDER BY w.n, c.seq LIMIT coalesce(max_rows, 1000);
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.read_chunks(bigint, int[], text[], int[], int[], date[], int[], int, int) IS 'Internal: parts of the logs of a run.';

-- Returns for each of these logs the number of the chunk in which the last `lines` lines begin, or the first chunk that arrived
-- at or after `since`. Lines are counted from the end, so that a large log is not read for its last few.
-- +goose StatementBegin
CREATE FUNCTION oarlock.log_starts(run bigint, steps int[], items text[], alts int[], attempts int[], days date[], lines bigint, since timestamptz)
RETURNS TABLE (place int, seq int)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    log   record;
    chunk record;
    shown text;
    ends  bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM oarlock.visible_run(run)) THEN
        RETURN;
    END IF;
    FOR log IN SELECT w.* FROM unnest(steps, items, alts, attempts, days) WITH ORDINALITY w (step, item, alt, attempt, log_day, n) LOOP
        place := log.n;
        seq := 0;
        IF since IS NOT NULL THEN
            SELECT coalesce(min(x.seq) FILTER (WHERE x.at >= since), max(x.seq) + 1, (
                   SELECT 1 FROM oarlock.silent_end(run, log.step, log.item, log.alt, log.attempt, log.log_day) e WHERE e.at < since), 0)
              INTO seq FROM oarlock.log_chunks x
             WHERE x.log_day = log.log_day AND x.run_id = run AND x.step = log.step AND x.item = log.item AND x.alt = log.alt AND x.attempt = log.attempt;
        END IF;
        IF lines IS NOT NULL THEN
            ends := 0;
            FOR chunk IN SELECT x.seq, x.data FROM oarlock.log_chunks x
                          WHERE x.log_day = log.log_day AND x.run_id = run AND x.step = log.step AND x.item = log.item AND x.alt = log.alt
                            AND x.attempt = log.attempt AND x.seq >= log_starts.seq
                          ORDER BY x.seq DESC LOOP
                shown := encode(chunk.data, 'escape'); -- escape takes any bytes, and keeps the newlines
                ends := ends + length(shown) - length(replace(shown, chr(10), ''));
                IF ends > lines THEN
                    seq := chunk.seq;
                    EXIT;
                END IF;
            END LOOP;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.log_starts(bigint, int[], text[], int[], int[], date[], bigint, timestamptz) IS 'Internal: where the end of a log begins.';

-- Returns the chunks of a log that hold up to `most` lines, from the line numbered `first` on; without `first`, the last lines.
-- It finds them by the number of lines in each chunk, so that no earlier chunk is read. It leaves out chunks that hold nothing
-- of these lines: chunks of another stream than the wanted one, and chunks of a line that began before or is long enough
-- already.
--
-- It reads at most max_bytes, then a quarter of that for the rest of lines that have begun, and looks at 4,000 chunks at most.
-- Its statements are planned once a session: otherwise they would be planned for each place it looks at, which costs more than
-- the look.
--
-- Each row has the number of lines that had begun before the chunk. Only the last row has an attempt. In it, seq is the last
-- chunk of the whole log, total the number of its lines, and final and reason are as of its end; the window covers the lines
-- from before + 1 to lines, and all chunks up to looked were examined. No row at all means that there is no such run, step or
-- attempt.
-- +goose StatementBegin
CREATE FUNCTION oarlock.log_window(run bigint, of_step text, of_item text, of_attempt int, first bigint, most int, only_stream int, max_bytes int)
RETURNS TABLE (seq int, stream smallint, at timestamptz, data bytea, final bool, reason text, dropped_bytes bigint, lines bigint, before bigint, attempt int, total bigint, looked int)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    max_chunks CONSTANT int := 4000;
    max_line   CONSTANT int := 16384; -- bytes of a line that are shown at most
    log     record;
    last    record;
    chunk   record;
    low     int := 0;
    high    int;
    middle  int;
    reached bigint;
    counted bigint := 0;    -- lines of the wanted stream
    bytes   bigint := 0;
    size    int;
    upto    bigint;         -- number of the last line of the window, once it is known
    none    CONSTANT text := '[0:2]={NULL,NULL,NULL}'; -- nothing for each stream
    ends    int[] := none;  -- for each stream its last chunk with data
    held    bigint[] := none; -- for each stream the bytes of its last line that were returned; null: that line is outside the window
    awaited bool[]; -- for each stream whether its last line still goes on, once upto is known
BEGIN
    SELECT s.step, coalesce(of_item, '') AS item, coalesce(substring(of_step FROM '~([0-9]{1,4})$'), '0')::int AS alt, NULL::int AS attempt, NULL::date AS day
      INTO log
      FROM oarlock.visible_run(run) r -- the query of log_steps, which would be planned anew at each call
      JOIN oarlock.dag_versions v USING (dag_id, version)
     CROSS JOIN oarlock.steps_of(v.spec) s
     WHERE s.name = regexp_replace(of_step, '~[0-9]{1,4}$', '');
    SELECT l.attempt, l.log_day INTO log.attempt, log.day
      FROM (SELECT t.attempt, t.log_day FROM oarlock.tasks t
             WHERE t.run_id = run AND t.step = log.step AND t.item = log.item AND t.alt = log.alt
            UNION ALL
            SELECT a.attempt, a.log_day FROM oarlock.attempts a
             WHERE a.run_id = run AND a.step = log.step AND a.item = log.item AND a.alt = log.alt) l
     WHERE l.log_day IS NOT NULL AND (of_attempt IS NULL OR l.attempt = of_attempt)
     ORDER BY l.attempt DESC LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    most := greatest(coalesce(most, 500), 1);
    max_bytes := greatest(coalesce(max_bytes, 1048576), 1);

    SELECT x.seq, x.lines, x.final, x.reason INTO last FROM oarlock.log_chunks x
     WHERE x.log_day = log.day AND x.run_id = run AND x.step = log.step AND x.item = log.item AND x.alt = log.alt AND x.attempt = log.attempt
     ORDER BY x.seq DESC LIMIT 1;
    IF NOT FOUND THEN
        SELECT -1 AS seq, 0::bigint AS lines, count(*) > 0 AS final, max(e.word) AS reason INTO last
          FROM oarlock.silent_end(run, log.step, log.item, log.alt, log.attempt, log.day) e;
    END IF;

    -- For the last lines, go back from the end until there are enough lines, or too many bytes. If no line begins within
    -- max_bytes, the window is the last line, however far back it began.
    IF coalesce(first, 0) < 1 THEN
        first := last.lines + 1;
        FOR chunk IN SELECT x.stream, octet_length(x.data) AS size, x.lines - lead(x.lines, 1, 0::bigint) OVER (ORDER BY x.seq DESC) AS begun
                       FROM oarlock.log_chunks x
                      WHERE x.log_day = log.day AND x.run_id = run AND x.step = log.step AND x.item = log.item AND x.alt = log.alt
                        AND x.attempt = log.attempt
                      ORDER BY x.seq DESC LIMIT max_chunks LOOP
            IF only_stream IS NULL OR chunk.stream = only_stream THEN
                bytes := bytes + chunk.size;
                EXIT WHEN bytes > max_bytes;
                counted := counted + chunk.begun;
            END IF;
            first := first - chunk.begun;
            EXIT WHEN counted >= most;
        END LOOP;
        first := greatest(least(first, last.lines), 1);
        IF only_stream IS NULL THEN
            first := greatest(first, last.lines - most + 1);
        ELSE
            most := 2147483647; -- all chunks found so far are returned, and the oldest may have a few lines too many
        END IF;
        counted := 0;
        bytes := 0;
    END IF;

    -- Find the first chunk by the end of which the line had begun.
    high := last.seq + 1;
    WHILE low < high LOOP
        middle := (low::bigint + high) / 2;
        SELECT x.lines INTO reached FROM oarlock.log_chunks x
         WHERE x.log_day = log.day AND x.run_id = run AND x.step = log.step AND x.item = log.item AND x.alt = log.alt AND x.attempt = log.attempt
           AND x.seq = middle;
        IF reached < first THEN
            low := middle + 1;
        ELSE
            high := middle;
        END IF;
    END LOOP;
    -- Bytes that were dropped before the line may be recorded in chunks without data: include these.
    FOR n IN 1 .. 100 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM oarlock.log_chunks x
             WHERE x.log_day = log.day AND x.run_id = run AND x.step = log.step AND x.item = log.item AND x.alt = log.alt AND x.attempt = log.attempt
               AND x.seq = low - 1 AND x.lines = first - 1 AND x.data = '');
        low := low - 1;
    END LOOP;
    SELECT coalesce(max(x.lines), 0) INTO reached FROM oarlock.log_chunks x
     WHERE x.log_day = log.day AND x.run_id = run AND x.step = log.step AND x.item = log.item AND x.alt = log.alt AND x.attempt = log.attempt
       AND x.seq = low - 1;

    FOR seq, stream, at, data, size, final, reason, dropped_bytes, lines IN
        SELECT x.seq, x.stream, x.at, x.data, octet_length(x.data), x.final, x.reason, x.dropped_bytes, x.lines
          FROM oarlock.log_chunks x
         WHERE x.log_day = log.day AND x.run_id = run AND x.step = log.step AND x.item = log.item AND x.alt = log.alt
           AND x.attempt = log.attempt AND x.seq >= low
         ORDER BY x.seq LIMIT max_chunks LOOP
        before := reached;
        reached := lines;
        -- dropped bytes may have ended any line
        IF dropped_bytes > 0 OR final THEN
            held := none;
        ELSIF only_stream <> stream OR lines = before AND coalesce(held[stream], max_line + 1) > max_line OR upto IS NOT NULL AND NOT awaited[stream] THEN
            CONTINUE;
        END IF;
        IF only_stream <> stream THEN
            data := '';
        END IF;
        RETURN NEXT;
        EXIT WHEN upto IS NOT NULL AND dropped_bytes > 0;
        IF octet_length(data) > 0 THEN
            bytes := bytes + size;
            counted := CASE WHEN only_stream IS NULL THEN lines - first + 1 ELSE counted + lines - greatest(before, first - 1) END;
            ends[stream] := seq;
            IF lines = before OR held[stream] IS DISTINCT FROM 0 THEN
                held[stream] := CASE WHEN lines > before THEN 0 ELSE held[stream] + size END;
            END IF;
        END IF;
        IF upto IS NULL AND (counted >= most OR bytes >= max_bytes) THEN
            upto := CASE WHEN only_stream IS NULL THEN least(lines, first + most - 1) ELSE lines END;
            max_bytes := bytes + max_bytes / 4;
            awaited := none;
            FOR n IN 0 .. 2 LOOP
                awaited[n] := held[n] IS NOT NULL AND (n <> stream OR lines = upto) AND EXISTS (
                       SELECT FROM oarlock.log_chunks x
                        WHERE x.log_day = log.day AND x.run_id = run AND x.step = log.step AND x.item = log.item AND x.alt = log.alt
                          AND x.attempt = log.attempt AND x.seq = ends[n] AND get_byte(x.data, octet_length(x.data) - 1) <> 10);
            END LOOP;
        ELSIF upto IS NOT NULL AND octet_length(data) > 0 THEN
            awaited[stream] := lines = before AND get_byte(data, octet_length(data) - 1) <> 10 AND held[stream] <= max_line;
        END IF;
        EXIT WHEN upto IS NOT NULL AND (bytes >= max_bytes OR NOT true = ANY (awaited));
    END LOOP;
    looked := coalesce(seq, low - 1);

    seq := last.seq;
    stream := NULL;
    at := NULL;
    data := NULL;
    final := last.final;
    reason := last.reason;
    dropped_bytes := NULL;
    before := least(first, last.lines + 1) - 1;
    lines := greatest(coalesce(upto, reached), before);
    attempt := log.attempt;
    total := last.lines;
    RETURN NEXT;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.log_window(bigint, text, text, int, bigint, int, int, int) IS 'Internal: chunks in which lines of a log stand.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.read_log(run bigint, step text, item text DEFAULT NULL, attempt int DEFAULT NULL, after int DEFAULT -1, max_rows int DEFAULT 1000)
RETURNS TABLE (seq int, stream text, at timestamptz, data bytea, final bool, reason text, dropped_bytes bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT c.seq, (ARRAY['oarlock', 'stdout', 'stderr'])[c.stream + 1], c.at, c.data, c.final, c.reason, c.dropped_bytes
      FROM (SELECT array_agg(a.step) AS steps, array_agg(a.item) AS items, array_agg(a.alt) AS alts, array_agg(a.attempt) AS attempts, array_agg(a.log_day) AS days
              FROM (SELECT l.* FROM oarlock.log_steps(run) s
                     CROSS JOIN oarlock.log_attempts(run, 0, 0, s.step, coalesce(read_log.item, ''),
                                                     coalesce(substring(read_log.step FROM '~([0-9]{1,4})$'), '0')::int) l
                     WHERE s.name = regexp_replace(read_log.step, '~[0-9]{1,4}$', '') AND (read_log.attempt IS NULL OR l.attempt = read_log.attempt)
                     ORDER BY l.attempt DESC LIMIT 1) a) w
     CROSS JOIN oarlock.read_chunks(run, w.steps, w.items, w.alts, w.attempts, w.days, ARRAY[least(greatest(coalesce(after, -1), -1), 2147483646) + 1], least(oarlock.check_rows(max_rows, 1000, 'max_rows'), 1000),
                                    1000) c;
END;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.read_log IS $$Returns the log of a task in numbered pieces. A piece can end within a line or within a character, so join the pieces before you decode the text.

- `attempt`: the attempt of which you want the log. The default is the latest attempt of the task.
- `after`: the function returns only pieces with a number above `after`. To read on, pass the last number that you have seen.
- `max_rows`: how many pieces the function returns at most. The default and the largest value is 1,000.

`dropped_bytes` of a piece is the number of bytes of the log that were lost before the piece. In the last piece, `final` is true, and `reason` says how the attempt ended. If the attempt wrote nothing, the log has only the last piece.

```sql
SELECT convert_from(string_agg(data, '' ORDER BY seq), 'UTF8') FROM oarlock.read_log(41, 'load');
SELECT seq, data FROM oarlock.read_log(41, 'load', after => 7); -- 7 is the last number seen
```$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION oarlock.read_log(bigint, text, text, int, int, int);
DROP FUNCTION oarlock.log_window(bigint, text, text, int, bigint, int, int, int);
DROP FUNCTION oarlock.log_starts(bigint, int[], text[], int[], int[], date[], bigint, timestamptz);
DROP FUNCTION oarlock.read_chunks(bigint, int[], text[], int[], int[], date[], int[], int, int);
DROP FUNCTION oarlock.silent_end(bigint, int, text, int, int, date);
DROP FUNCTION oarlock.log_attempts(bigint, int, bigint, int, text, int);
DROP FUNCTION oarlock.log_steps(bigint);
DROP FUNCTION oarlock.unfollow(bigint, text);
DROP FUNCTION oarlock.follow(bigint, text, int, bool);
ALTER TABLE oarlock.followers DROP COLUMN logs;
