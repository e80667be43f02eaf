-- +goose Up

-- The clock of schedules: the moments that a cron expression, an interval or a single time means. The database decides. Package
-- dagrun/schedule computes the same in Go, for previews, and a test compares both. A change here needs the same change there.
--
-- A wall time that exists once fires. One in a gap fires shifted by the gap (02:30 is 03:30 then; equal moments are one fire).
-- A wall time that comes twice fires in the first pass, and in both if the hour field begins with a star.

CREATE TYPE oarlock.cron AS (
    minutes  int[],     -- of the day, sorted: hour * 60 + minute
    mask     bit(1440), -- the same minutes as bits, which unite and subtract in one step
    days     int[],
    months   int[],
    weekdays int[], -- 0 is Sunday
    either   bool,  -- day and weekday are both restricted, and a match of one is enough
    twice    bool   -- the hour field begins with a star: a time that the clock shows twice fires twice
);

CREATE TYPE oarlock.timing AS (
    cron text, every_ms bigint, at timestamptz, -- exactly one of these three is set
    timezone text, start_at timestamptz, end_at timestamptz, except_at text[],
    compiled     oarlock.cron,  -- compiled from cron
    except_dates date[],        -- dates in except_at; null: none
    except_crons oarlock.cron[] -- cron expressions in except_at; null: none. Without `minutes`, because twenty lists may take 115 kB
);

-- Returns a hint for a bad item of a cron expression; a special one if other systems know the item.
-- +goose StatementBegin
CREATE FUNCTION oarlock.cron_hint(item text, downwards bool) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT CASE
        WHEN item LIKE '%?%' THEN 'write * instead of ?'
        WHEN item LIKE '%#%' THEN 'cron cannot name the nth weekday of a month: fire on each such weekday, and let the first step check the date'
        WHEN item ~ '[0-9l]w$' THEN 'cron cannot name the nearest working day: write 1-5 as the weekday'
        WHEN item ~ '^l' OR item ~ '[0-9]l$' THEN 'cron cannot name the last day of a month: fire on 28-31, and let the first step check whether tomorrow is the 1st'
        WHEN item ~ '^h($|[(/])' THEN 'write a number instead of H'
        WHEN downwards THEN 'a range goes up, as in 1-5; write two ranges to go past the end, as in 22-23,0-5'
        ELSE 'write five fields: minute hour day month weekday, such as 30 3 * * 1-5' END;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.cron_hint IS 'Internal: what to type instead of an item of a cron expression.';

-- Returns the values of one of the five fields, sorted. An error names the part of the field that is no value of it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.read_cron_field(field text, i int, what text) RETURNS int[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    low   int    := (ARRAY[0, 0, 1, 1, 0])[i];
    high  int    := (ARRAY[59, 23, 31, 12, 7])[i];
    top   int    := (ARRAY[59, 23, 31, 12, 6])[i]; -- the end of a range without one: a week has seven days
    names text[] := CASE i WHEN 4 THEN '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}' WHEN 5 THEN '{sun,mon,tue,wed,thu,fri,sat}' ELSE '{}' END;
    found int[]  := '{}';
    item  text;
    m     text[];
    a     int;
    b     int;
    step  int;
BEGIN
    FOREACH item IN ARRAY string_to_array(field, ',') LOOP
        m := regexp_match(item, '^(?:(\*)|([0-9]{1,4}|[a-z]{3})(?:-([0-9]{1,4}|[a-z]{3}))?)(?:/([0-9]{1,4}))?$');
        a := CASE WHEN m[1] IS NOT NULL THEN low WHEN m[2] ~ '^[0-9]' THEN m[2]::int ELSE array_position(names, m[2]) - 1 + low END;
        b := CASE WHEN m[3] ~ '^[0-9]' THEN m[3]::int WHEN m[3] IS NOT NULL THEN array_position(names, m[3]) - 1 + low
                  WHEN m[1] IS NOT NULL OR m[4] IS NOT NULL THEN greatest(a, top) ELSE a END;
        step := coalesce(m[4]::int, 1);
        IF (a BETWEEN low AND high AND b BETWEEN a AND high AND step BETWEEN 1 AND high) IS NOT TRUE THEN
            RAISE EXCEPTION '%: "%" is no % (% to %)', what, left(item, 50), (ARRAY['minute', 'hour', 'day', 'month', 'weekday'])[i], low, high
                USING ERRCODE = 'OA013', HINT = oarlock.cron_hint(item, a BETWEEN low AND high AND b BETWEEN low AND high AND a > b);
        END IF;
        found := found || ARRAY(SELECT CASE WHEN i = 5 THEN n % 7 ELSE n END FROM generate_series(a, b, step) n);
    END LOOP;
    RETURN ARRAY(SELECT DISTINCT n FROM unnest(found) n ORDER BY n);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.read_cron_field IS 'Internal: the values of a field of a cron expression.';

-- Compiles a cron expression. `field` is its name in errors.
-- +goose StatementBegin
CREATE FUNCTION oarlock.read_cron(text text, field text DEFAULT 'cron') RETURNS oarlock.cron
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    fields CONSTANT text := 'write five fields: minute hour day month weekday, such as 30 3 * * 1-5';
    typed  text := lower(btrim(text, E' \t\n\r') COLLATE "C");
    parts  text[];
    c      oarlock.cron;
    hours  int[];
    minute int;
BEGIN
    IF length(text) > 500 THEN
        RAISE EXCEPTION '%: % characters, at most 500', field, length(text) USING ERRCODE = 'OA013', HINT = fields;
    END IF;
    IF typed LIKE '@%' THEN
        typed := CASE typed WHEN '@yearly' THEN '0 0 1 1 *' WHEN '@annually' THEN '0 0 1 1 *' WHEN '@monthly' THEN '0 0 1 * *' WHEN '@weekly' THEN '0 0 * * 0'
                            WHEN '@daily' THEN '0 0 * * *' WHEN '@midnight' THEN '0 0 * * *' WHEN '@hourly' THEN '0 * * * *' ELSE typed END;
    END IF;
    IF typed LIKE '@%' THEN
        RAISE EXCEPTION '%: "%" is none of @yearly, @monthly, @weekly, @daily and @hourly', field, left(typed, 50) USING ERRCODE = 'OA013',
            HINT = CASE WHEN typed LIKE '@every%' THEN 'use every instead, such as every: 15m'
                        WHEN typed LIKE '@reboot%' THEN 'no schedule fires when a machine starts: write `oarlock enqueue NAME` into the boot script of the machine' ELSE fields END;
    END IF;
    parts := CASE WHEN typed = '' THEN '{}' ELSE regexp_split_to_array(typed, E'[ \t\n\r]+') END;
    IF cardinality(parts) IS DISTINCT FROM 5 THEN
        RAISE EXCEPTION '%: wants five fields, not %', field, coalesce(cardinality(parts), 0) USING ERRCODE = 'OA013',
            HINT = CASE WHEN typed LIKE '%tz=%' THEN 'give the time zone in timezone:, as in timezone: Europe/Paris'
                        WHEN cardinality(parts) IN (6, 7) THEN 'leave out the seconds (the first field) or the year (the last); below a minute use every' ELSE fields END;
    END IF;
    c.minutes := oarlock.read_cron_field(parts[1], 1, field);
    hours := oarlock.read_cron_field(parts[2], 2, field);
    c.minutes := ARRAY(SELECT h * 60 + m FROM unnest(hours) h, unnest(c.minutes) m ORDER BY 1);
    c.mask := 0::bit(1440);
    FOREACH minute IN ARRAY c.minutes LOOP
        c.mask := set_bit(c.mask, minute, 1);
    END LOOP;
    c.days := oarlock.read_cron_field(parts[3], 3, field);
    c.months := oarlock.read_cron_field(parts[4], 4, field);
    c.weekdays := oarlock.read_cron_field(parts[5], 5, field);
    c.either := parts[3] NOT LIKE '*%' AND parts[5] NOT LIKE '*%';
    c.twice := parts[2] LIKE '*%';
    RETURN c;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.read_cron IS 'Internal: compiles a cron expression.';

-- Compiles the entries of except, each a date or a cron expression. A result without entries is null.
-- +goose StatementBegin
CREATE FUNCTION oarlock.read_excepts(except_at text[], OUT dates date[], OUT skips oarlock.cron[])
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    entry text;
    d     text[];
    c     oarlock.cron;
BEGIN
    FOREACH entry IN ARRAY coalesce(except_at, '{}') LOOP
        entry := btrim(entry, E' \t\n\r');
        d := regexp_match(entry, '^([0-9]{4})-(0[1-9]|1[0-2])-([0-9]{2})$');
        IF d[3]::int BETWEEN 1 AND (ARRAY[31, CASE WHEN (d[1]::int % 4 = 0 AND d[1]::int % 100 <> 0) OR d[1]::int % 400 = 0 THEN 29 ELSE 28 END,
                                          31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[d[2]::int] AND d[1] <> '0000' THEN
            dates := dates || make_date(d[1]::int, d[2]::int, d[3]::int);
        ELSIF entry ~ E'[ \t\n\r]' OR entry LIKE '@%' THEN
            c := oarlock.read_cron(entry, 'except');
            c.minutes := NULL;
            skips := skips || c;
        ELSE
            RAISE EXCEPTION 'except: "%" is neither a date nor a cron expression', coalesce(left(entry, 50), 'null') USING ERRCODE = 'OA013',
                HINT = 'write a date such as 2026-12-25, or five fields such as * * 25 12 *';
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.read_excepts IS 'Internal: compiles what a schedule leaves out.';

-- Returns the zone that has most pairs of letters in common with a name; null: none is near.
-- +goose StatementBegin
CREATE FUNCTION oarlock.near_zone(zone text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH typed AS (SELECT ARRAY(SELECT DISTINCT lower(substr(zone, i, 2)) FROM generate_series(1, least(length(zone), 100) - 1) i) AS pairs)
    SELECT n.name FROM pg_timezone_names n, typed, LATERAL (SELECT ARRAY(SELECT DISTINCT lower(substr(n.name, i, 2)) FROM generate_series(1, length(n.name) - 1) i) AS pairs) p,
           LATERAL (SELECT 2.0 * (SELECT count(*) FROM unnest(p.pairs) x WHERE x = ANY (typed.pairs)) / (cardinality(p.pairs) + cardinality(typed.pairs)) AS near) s
     WHERE n.name LIKE '%/%' AND n.name !~ '^(posix|right)/' AND s.near >= 0.5
     ORDER BY s.near DESC, n.name LIMIT 1;
END;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.near_zone IS 'Internal: the time zone that a user may have meant.';

-- Raises an error unless zone is the exact name of a time zone. AT TIME ZONE also takes abbreviations, POSIX rules and any
-- case. A schedule takes only the name of a zone, as Go does. The parameter TimeZone knows no abbreviations and, once it is
-- set, only the case of the zone itself, and answers in microseconds; the list of all names reads 600 files. POSIX rules have
-- digits, so names with digits are looked up in that list.
-- +goose StatementBegin
CREATE FUNCTION oarlock.check_zone(zone text) RETURNS void
LANGUAGE plpgsql SET TimeZone = 'UTC' AS $$
DECLARE
    known bool := false;
    near  text;
BEGIN
    IF zone IN ('CET', 'EET', 'MET', 'WET', 'EST', 'MST', 'HST') THEN -- AT TIME ZONE takes these for abbreviations, without summer time
        RAISE EXCEPTION 'time zone "%" means several things', zone USING ERRCODE = 'OA013', HINT = 'name a place, such as Europe/Paris';
    END IF;
    IF zone ~ '^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$' AND zone !~ '^(posix|right)/' AND zone NOT IN ('localtime', 'posixrules', 'Factory') THEN
        BEGIN
            PERFORM set_config('TimeZone', zone, true);
            near := nullif(current_setting('TimeZone'), zone);
            known := near IS NULL AND (zone !~ '[0-9]' OR zone ~ '^Etc/GMT[+-]([0-9]|1[0-2])$' OR EXISTS (SELECT FROM pg_timezone_names n WHERE n.name = zone));
        EXCEPTION WHEN invalid_parameter_value THEN
            NULL;
        END;
    END IF;
    IF NOT known THEN
        near := coalesce(CASE WHEN lower(near) = lower(zone) AND zone !~ '[0-9]' THEN near END, oarlock.near_zone(zone));
        RAISE EXCEPTION 'unknown time zone "%"', left(zone, 50) USING ERRCODE = 'OA013',
            HINT = coalesce('did you mean ' || near || '?', 'use a name such as Europe/Paris, or UTC');
    END IF;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.check_zone IS 'Internal: refuses what is not the name of a time zone.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.make_timing(cron text DEFAULT NULL, every interval DEFAULT NULL, at timestamptz DEFAULT NULL, timezone text DEFAULT NULL,
    start_at timestamptz DEFAULT NULL, end_at timestamptz DEFAULT NULL, except_at text[] DEFAULT NULL) RETURNS oarlock.timing
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    t oarlock.timing;
    m record;
BEGIN
    IF num_nonnulls(cron, every, at) <> 1 THEN
        RAISE EXCEPTION 'a schedule needs exactly one of cron, every and at, this schedule has %', num_nonnulls(cron, every, at) USING ERRCODE = 'OA013', HINT = 'write cron:, every: or at:';
    END IF;
    IF cron IS NOT NULL THEN
        t.compiled := oarlock.read_cron(cron);
        IF NOT (t.compiled).either AND ((t.compiled).days)[1] > (SELECT max((ARRAY[31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[n]) FROM unnest((t.compiled).months) n) THEN
            RAISE EXCEPTION 'cron: "%" never fires, because its months have no such day', left(cron, 50) USING ERRCODE = 'OA013', HINT = 'name a day that exists, such as 0 0 28 2 *';
        END IF;
    END IF;
    IF every IS NOT NULL THEN
        IF NOT isfinite(every) OR extract(year FROM every) <> 0 OR extract(month FROM every) <> 0 THEN
            RAISE EXCEPTION 'every has months or years, which differ in length' USING ERRCODE = 'OA013', HINT = 'use cron, such as 0 0 1 * *';
        ELSIF extract(epoch FROM every) < 1 THEN
            RAISE EXCEPTION 'every is too short' USING ERRCODE = 'OA013', HINT = 'at least 1s';
        ELSIF extract(epoch FROM every) > 36500 * 86400::bigint THEN
            RAISE EXCEPTION 'every is too long' USING ERRCODE = 'OA013', HINT = 'at most 36500d';
        ELSIF extract(epoch FROM every) * 1000 % 1 <> 0 THEN
            RAISE EXCEPTION 'every counts in milliseconds' USING ERRCODE = 'OA013', HINT = 'such as 1500ms';
        END IF;
        t.every_ms := (extract(epoch FROM every) * 1000)::bigint;
    END IF;
    t.timezone := coalesce(timezone, 'UTC');
    IF t.timezone <> 'UTC' THEN
        PERFORM oarlock.check_zone(t.timezone);
    END IF;
    FOR m IN SELECT x.name, x.moment FROM (VALUES ('at', at), ('start', start_at), ('end', end_at)) x (name, moment) LOOP
        IF NOT oarlock.is_in_known_years(m.moment) THEN
            RAISE EXCEPTION '% is no time of the years 20 to 9899', m.name USING ERRCODE = 'OA013', HINT = 'write a time such as 2026-11-20T03:00:00Z, or with an offset such as +01:00';
        END IF;
    END LOOP;
    IF start_at >= end_at THEN
        RAISE EXCEPTION 'end is not after start' USING ERRCODE = 'OA013', HINT = 'a schedule fires from start on, and before end';
    END IF;
    IF cardinality(except_at) > 100 THEN
        RAISE EXCEPTION 'except has % entries, at most 100', cardinality(except_at) USING ERRCODE = 'OA013', HINT = 'leave out entries that are past, or use a cron expression such as * * 25 12 *';
    END IF;
    SELECT e.dates, e.skips INTO t.except_dates, t.except_crons FROM oarlock.read_excepts(except_at) e;
    IF cardinality(t.except_crons) > 20 THEN
        RAISE EXCEPTION 'except has % cron expressions, at most 20', cardinality(t.except_crons) USING ERRCODE = 'OA013', HINT = 'join some expressions, as in * * 24-26 12 *, or write dates';
    END IF;
    t.cron := cron;
    t.at := at;
    t.start_at := start_at;
    t.end_at := end_at;
    t.except_at := except_at;
    RETURN t;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.make_timing IS 'Internal: checks and compiles when a schedule fires.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.cron_day(c oarlock.cron, day date) RETURNS bool
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN extract(month FROM day)::int = ANY (c.months)
       AND CASE WHEN c.either THEN extract(day FROM day)::int = ANY (c.days) OR extract(dow FROM day)::int = ANY (c.weekdays)
                ELSE extract(day FROM day)::int = ANY (c.days) AND extract(dow FROM day)::int = ANY (c.weekdays) END;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.cron_day IS 'Internal: whether a cron expression matches a day.';

-- Returns the minutes of a day that the schedule leaves out; null: none.
-- +goose StatementBegin
CREATE FUNCTION oarlock.left_out(day date, dates date[], skips oarlock.cron[]) RETURNS bit
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    month   int := extract(month FROM day);
    of      int := extract(day FROM day);
    weekday int := extract(dow FROM day);
BEGIN
    IF day = ANY (dates) THEN
        RETURN (-1)::bit(1440);
    END IF;
    RETURN (SELECT bit_or(s.mask) FROM unnest(skips) s
             WHERE month = ANY (s.months) AND CASE WHEN s.either THEN of = ANY (s.days) OR weekday = ANY (s.weekdays) ELSE of = ANY (s.days) AND weekday = ANY (s.weekdays) END);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.left_out IS 'Internal: the minutes of a day that are left out.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.near_bit(mask bit, m int, forward bool) RETURNS int
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN forward THEN m - 1 + nullif(position(B'1' IN substring(mask FROM m + 1)), 0)
                ELSE nullif(length(rtrim(substring(mask FOR m + 1)::text, '0')), 0) - 1 END;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.near_bit IS 'Internal: the first bit from a minute on, or the last up to it.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.minute_of(wall timestamp) RETURNS int
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN floor(extract(epoch FROM wall - date_trunc('day', wall)) / 60);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.minute_of IS 'Internal: the minute of the day that a clock shows.';

-- Returns how far the zone is ahead of UTC at a moment, given in UTC.
-- +goose StatementBegin
CREATE FUNCTION oarlock.zone_offset(zone text, utc timestamp) RETURNS interval
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ((utc AT TIME ZONE 'UTC') AT TIME ZONE zone) - utc;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.zone_offset IS 'Internal: the offset of a time zone.';

-- Returns the nearest fire beyond `bound` on a day around which the offset changes from `old` to `new`. It tries each wall time
-- with both offsets. A moment may differ from its wall time by the difference of the two. So without excepts, the minutes
-- within twice that difference from the bound are enough.
-- +goose StatementBegin
CREATE FUNCTION oarlock.find_changed(minutes int[], twice bool, zone text, day date, old interval, new interval, bound timestamptz, forward bool,
    dates date[], skips oarlock.cron[]) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    apart  int     := ceil(abs(extract(epoch FROM new - old)) / 60);
    beyond numeric := extract(epoch FROM (bound AT TIME ZONE 'UTC') + CASE WHEN forward THEN least(old, new) ELSE greatest(old, new) END - day) / 60;
    gone   bit(1440); -- the minutes that are left out of the day of the hit
    known  date;      -- the day that gone is for
    wall   timestamp;
    i      int;
    hit    timestamptz;
BEGIN
    IF num_nonnulls(dates, skips) > 0 THEN
        apart := 1440;
        known := day;
        gone := oarlock.left_out(day, dates, skips);
    END IF;
    IF forward THEN
        i := width_bucket(floor(beyond)::int, minutes) + 1;
        minutes := minutes[i : i + 2 * apart];
    ELSE
        i := width_bucket(ceil(beyond)::int - 1, minutes);
        minutes := minutes[greatest(i - 2 * apart, 1) : i];
    END IF;
    IF gone IS NOT NULL THEN
        -- Only a wall time in a gap fires at another time. All other excepted minutes are removed here, before the sort.
        minutes := ARRAY(SELECT m FROM unnest(minutes) m, LATERAL (SELECT day + m * interval '1 minute' AS wall OFFSET 0) w
                          WHERE CASE WHEN get_bit(gone, m) = 0 THEN true
                                     ELSE ((w.wall - old) AT TIME ZONE 'UTC') AT TIME ZONE zone <> w.wall AND ((w.wall - new) AT TIME ZONE 'UTC') AT TIME ZONE zone <> w.wall END);
    END IF;
    FOR hit IN
        SELECT f.at
          FROM unnest(minutes) m,
               LATERAL (SELECT day + m * interval '1 minute' AS wall OFFSET 0) w,
               LATERAL (SELECT (w.wall - old) AT TIME ZONE 'UTC' AS a, (w.wall - new) AT TIME ZONE 'UTC' AS b OFFSET 0) o,
               LATERAL (SELECT (o.a AT TIME ZONE zone) = w.wall AS a, (o.b AT TIME ZONE zone) = w.wall AS b OFFSET 0) shown,
               LATERAL (VALUES (CASE WHEN shown.a AND shown.b THEN least(o.a, o.b) WHEN shown.b THEN o.b ELSE o.a END),
                               (CASE WHEN shown.a AND shown.b AND twice THEN greatest(o.a, o.b) END)) f (at)
         WHERE CASE WHEN forward THEN f.at > bound ELSE f.at < bound END
         ORDER BY CASE WHEN forward THEN f.at END, f.at DESC
    LOOP
        wall := hit AT TIME ZONE zone;
        IF wall::date IS DISTINCT FROM known THEN
            known := wall::date;
            gone := oarlock.left_out(known, dates, skips);
        END IF;
        IF gone IS NULL OR get_bit(gone, oarlock.minute_of(wall)) = 0 THEN
            RETURN hit;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.find_changed IS 'Internal: the nearest fire on a day of a change of the clock.';

-- Returns the nearest fire of a cron expression. It walks the local days from the day before `bound` on (backward: after it),
-- because wall times in a gap fire later than their own time. For the same reason it also looks at the calendar day beyond the
-- first hit. It gives up after 400 days of the expression that are left out: a schedule that fires once in two years must have
-- a cron expression for that, and no daily one with excepts.
-- +goose StatementBegin
CREATE FUNCTION oarlock.find_cron(t oarlock.timing, bound timestamptz, forward bool) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    c       oarlock.cron := t.compiled;
    minutes int[]        := c.minutes;
    zone    text         := t.timezone;
    utc     timestamp    := bound AT TIME ZONE 'UTC';
    step    int          := CASE WHEN forward THEN 1 ELSE -1 END;
    today   date         := (bound AT TIME ZONE zone)::date;
    day     date         := today - step;
    last    date         := today + 3660 * step;
    dates   date[]       := t.except_dates;
    skips   oarlock.cron[] := t.except_crons;
    spared  bool         := num_nonnulls(dates, skips) > 0;
    vain    int          := 0; -- days of the expression that had no fire
    gone    bit(1440);
    old     interval;
    new     interval;
    beyond  numeric;
    m       int;
    hit     timestamptz;
    best    timestamptz;
BEGIN
    WHILE (last - day) * step >= 0 LOOP
        IF NOT extract(month FROM day)::int = ANY (c.months) THEN
            day := CASE WHEN forward THEN date_trunc('month', day::timestamp)::date + interval '1 month' ELSE date_trunc('month', day::timestamp)::date - 1 END;
            CONTINUE;
        END IF;
        IF oarlock.cron_day(c, day) THEN
            old := oarlock.zone_offset(zone, day::timestamp - interval '1 day');
            new := oarlock.zone_offset(zone, day::timestamp + interval '2 days');
            IF old <> new AND oarlock.zone_offset(zone, day - greatest(old, new)) = oarlock.zone_offset(zone, day + 1 - least(old, new)) THEN
                old := oarlock.zone_offset(zone, day - greatest(old, new)); -- the change is near, but not on this day
                new := old;
            END IF;
            IF old <> new AND best IS NOT NULL AND (CASE WHEN forward THEN best <= (day - greatest(old, new)) AT TIME ZONE 'UTC'
                                                         ELSE best >= (day + 1 - least(old, new)) AT TIME ZONE 'UTC' END) THEN
                hit := NULL; -- this whole day lies beyond the hit
            ELSIF old <> new THEN
                hit := oarlock.find_changed(minutes, c.twice, zone, day, old, new, bound, forward, dates, skips);
            ELSE
                beyond := extract(epoch FROM utc + old - day) / 60;
                m := CASE WHEN forward THEN minutes[width_bucket(floor(beyond)::int, minutes) + 1] ELSE minutes[width_bucket(ceil(beyond)::int - 1, minutes)] END;
                IF spared AND m IS NOT NULL THEN
                    gone := oarlock.left_out(day, dates, skips);
                    IF get_bit(gone, m) = 1 THEN
                        m := oarlock.near_bit(c.mask & ~gone, m, forward);
                    END IF;
                END IF;
                hit := (day + m * interval '1 minute' - old) AT TIME ZONE 'UTC';
            END IF;
            IF hit IS NULL THEN
                vain := vain + 1;
                EXIT WHEN vain > 400;
            ELSE
                IF best IS NULL THEN
                    last := day + step;
                END IF;
                best := CASE WHEN forward THEN least(best, hit) ELSE greatest(best, hit) END;
            END IF;
        END IF;
        day := day + step;
    END LOOP;
    RETURN best;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.find_cron IS 'Internal: the nearest fire of a cron expression.';

-- Returns the point of the grid next to `bound`. It counts microseconds since 1970 in whole numbers, because to_timestamp and
-- multiplied intervals use doubles, which would be off.
-- +goose StatementBegin
CREATE FUNCTION oarlock.grid_point(t oarlock.timing, bound timestamptz, forward bool) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    every bigint := t.every_ms * 1000;
    at    bigint := extract(epoch FROM bound) * 1000000;
    past  bigint := (at - coalesce((extract(epoch FROM t.start_at) * 1000000)::bigint, 0)) % every; -- time since the point before it
BEGIN
    past := CASE WHEN past < 0 THEN past + every ELSE past END;
    at := at - past + CASE WHEN forward THEN every WHEN past = 0 THEN -every ELSE 0 END;
    RETURN timestamptz '1970-01-01 00:00+00' + at / 1000000 * interval '1 second' + at % 1000000 * interval '1 microsecond';
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.grid_point IS 'Internal: the nearest point of the grid of an interval.';

-- Returns the nearest fire of an interval. It leaps over the excepted minutes of a day, and goes minute by minute on the day of a
-- change of the clock. It gives up after 400 days, or 10,000 points, that are left out: a grid that excepts thin out to one fire in
-- two years must be a cron expression instead.
-- +goose StatementBegin
CREATE FUNCTION oarlock.find_every(t oarlock.timing, bound timestamptz, forward bool) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    zone  text        := t.timezone;
    point timestamptz := oarlock.grid_point(t, bound, forward);
    dates date[]      := t.except_dates;
    skips oarlock.cron[] := t.except_crons;
    days  int         := 0;
    gone  bit(1440);
    wall  timestamp;
    day   date;
    old   interval;
    new   interval;
    m     int;
BEGIN
    IF num_nonnulls(dates, skips) = 0 THEN
        RETURN point;
    END IF;
    FOR i IN 1..10000 LOOP
        IF point >= t.end_at OR point < t.start_at OR NOT oarlock.is_in_known_years(point) THEN
            RETURN NULL;
        END IF;
        wall := point AT TIME ZONE zone;
        IF day IS DISTINCT FROM wall::date THEN
            EXIT WHEN days > 400;
            days := days + 1;
            day := wall::date;
            old := oarlock.zone_offset(zone, day::timestamp - interval '1 day');
            new := oarlock.zone_offset(zone, day::timestamp + interval '2 days');
            IF old <> new AND oarlock.zone_offset(zone, day - greatest(old, new)) = oarlock.zone_offset(zone, day + 1 - least(old, new)) THEN
                old := oarlock.zone_offset(zone, day - greatest(old, new)); -- the change is near, but not on this day
                new := old;
            END IF;
            gone := oarlock.left_out(day, dates, skips);
        END IF;
        m := oarlock.minute_of(wall);
        IF gone IS NULL OR get_bit(gone, m) = 0 THEN
            RETURN point;
        END IF;
        IF old = new THEN -- to the next minute that is not left out, or back to the end of the last one
            m := coalesce(oarlock.near_bit(~gone, m, forward), CASE WHEN forward THEN 1440 ELSE -1 END) + CASE WHEN forward THEN 0 ELSE 1 END;
            bound := (day + m * interval '1 minute' - old) AT TIME ZONE 'UTC';
        ELSE
            bound := point - (wall - date_trunc('minute', wall)) + CASE WHEN forward THEN interval '1 minute' ELSE interval '0' END;
        END IF;
        point := oarlock.grid_point(t, CASE WHEN forward THEN bound - interval '1 microsecond' ELSE bound END, forward);
    END LOOP;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.find_every IS 'Internal: the nearest fire of an interval.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.find_at(t oarlock.timing, bound timestamptz, forward bool) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wall timestamp := t.at AT TIME ZONE t.timezone;
BEGIN
    RETURN CASE WHEN CASE WHEN forward THEN t.at > bound ELSE t.at < bound END
            AND (get_bit(oarlock.left_out(wall::date, t.except_dates, t.except_crons), oarlock.minute_of(wall)) = 1) IS NOT TRUE THEN t.at END;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.find_at IS 'Internal: the fire of a single time.';

-- Returns the first fire after a moment; null: there is none within ten years, or 400 days are left out before it.
-- +goose StatementBegin
CREATE FUNCTION oarlock.next_time(t oarlock.timing, after timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    bound timestamptz := greatest(after, t.start_at - interval '1 microsecond', timestamptz '0020-01-01 00:00+00');
    hit   timestamptz;
BEGIN
    IF after IS NULL OR bound >= timestamptz '9900-01-01 00:00+00' OR bound >= t.end_at THEN
        RETURN NULL;
    END IF;
    hit := CASE WHEN t.cron IS NOT NULL THEN oarlock.find_cron(t, bound, true) WHEN t.every_ms IS NOT NULL THEN oarlock.find_every(t, bound, true) ELSE oarlock.find_at(t, bound, true) END;
    RETURN CASE WHEN (hit >= t.end_at) IS NOT TRUE THEN hit END;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.next_time IS 'Internal: the first fire of a schedule after a moment.';

-- Returns the newest fire before a moment; null as in next_time.
-- +goose StatementBegin
CREATE FUNCTION oarlock.last_time(t oarlock.timing, before timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
DECLARE
    bound timestamptz := least(before, t.end_at, timestamptz '9900-01-01 00:00+00');
    hit   timestamptz;
BEGIN
    IF before IS NULL OR bound <= timestamptz '0020-01-01 00:00+00' OR bound <= t.start_at THEN
        RETURN NULL;
    END IF;
    hit := CASE WHEN t.cron IS NOT NULL THEN oarlock.find_cron(t, bound, false) WHEN t.every_ms IS NOT NULL THEN oarlock.find_every(t, bound, false) ELSE oarlock.find_at(t, bound, false) END;
    RETURN CASE WHEN (hit < t.start_at) IS NOT TRUE THEN hit END;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.last_time IS 'Internal: the newest fire of a schedule before a moment.';

-- Returns the least time between two fires, without changes of the clock; null: there is only one fire.
-- +goose StatementBegin
CREATE FUNCTION oarlock.shortest_gap(t oarlock.timing) RETURNS interval
LANGUAGE plpgsql STABLE AS $$
DECLARE
    minutes int[] := (t.compiled).minutes;
BEGIN
    IF t.every_ms IS NOT NULL THEN
        RETURN t.every_ms / 1000 * interval '1 second' + t.every_ms % 1000 * interval '1 millisecond';
    END IF;
    RETURN (SELECT min(coalesce(minutes[i + 1], minutes[1] + 1440) - minutes[i]) FROM generate_subscripts(minutes, 1) i) * interval '1 minute';
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION oarlock.shortest_gap IS 'Internal: the least time between two fires.';

-- +goose StatementBegin
CREATE FUNCTION oarlock.cron_times(cron text, timezone text DEFAULT 'UTC', after timestamptz DEFAULT now(), n int DEFAULT 5) RETURNS SETOF timestamptz
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp ROWS 5 AS $$
#variable_conflict use_variable
DECLARE
    t     oarlock.timing;
    fires timestamptz := coalesce(after, now());
BEGIN
    n := coalesce(n, 5);
    IF n NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'n is from 1 to 1000, not %', n USING ERRCODE = 'OA013', HINT = 'more are after the last of these';
    END IF;
    t := oarlock.make_timing(cron, NULL, NULL, timezone, NULL, NULL, NULL);
    FOR i IN 1..n LOOP
        fires := oarlock.next_time(t, fires);
        EXIT WHEN fires IS NULL;
        RETURN NEXT fires;
    END LOOP;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
COMMENT ON FUNCTION oarlock.cron_times IS $$Returns the next `n` times (1 to 1000) at which a schedule with this cron expression fires in a time zone. A cron expression has five fields: minute, hour, day, month, weekday. An invalid cron expression or an unknown time zone raises OA013, and the hint of the error says how to correct the value.

When the clock goes forward, for example to summer time, some local times do not exist. If a schedule fires at a local time that does not exist, it fires later by the time that the clock skipped. When the clock goes back, some local times come twice. If a schedule fires at a local time that comes twice, it fires only at the first of the two times. If the hour of the cron expression begins with `*`, the schedule fires at both times.

```sql
SELECT * FROM oarlock.cron_times('30 3 * * 1-5', 'Europe/Paris');
```$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION oarlock.cron_times(text, text, timestamptz, int);
DROP FUNCTION oarlock.shortest_gap(oarlock.timing);
DROP FUNCTION oarlock.last_time(oarlock.timing, timestamptz);
DROP FUNCTION oarlock.next_time(oarlock.timing, timestamptz);
DROP FUNCTION oarlock.find_at(oarlock.timing, timestamptz, bool);
DROP FUNCTION oarlock.find_every(oarlock.timing, timestamptz, bool);
DROP FUNCTION oarlock.grid_point(oarlock.timing, timestamptz, bool);
DROP FUNCTION oarlock.find_cron(oarlock.timing, timestamptz, bool);
DROP FUNCTION oarlock.find_changed(int[], bool, text, date, interval, interval, timestamptz, bool, date[], oarlock.cron[]);
DROP FUNCTION oarlock.zone_offset(text, timestamp);
DROP FUNCTION oarlock.minute_of(timestamp);
DROP FUNCTION oarlock.near_bit(bit, int, bool);
DROP FUNCTION oarlock.left_out(date, date[], oarlock.cron[]);
DROP FUNCTION oarlock.cron_day(oarlock.cron, date);
DROP FUNCTION oarlock.make_timing(text, interval, timestamptz, text, timestamptz, timestamptz, text[]);
DROP FUNCTION oarlock.check_zone(text);
DROP FUNCTION oarlock.near_zone(text);
DROP FUNCTION oarlock.read_excepts(text[]);
DROP FUNCTION oarlock.read_cron(text, text);
DROP FUNCTION oarlock.read_cron_field(text, int, text);
DROP FUNCTION oarlock.cron_hint(text, bool);
DROP TYPE oarlock.timing;
DROP TYPE oarlock.cron;
