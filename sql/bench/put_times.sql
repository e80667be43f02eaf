-- Purpose: puts schedules that fire once each, evenly within a span of time. Only benchmarks send it
-- Index: schedules_name
-- Locks: none that others wait for
SELECT count(*) FROM oarlock.put_schedules((
    SELECT jsonb_agg(jsonb_build_object('dag', 'tick', 'name', @name::text || ' ' || i, 'at', @first::timestamptz + (i * @span::float8 / @n::int) * interval '1 second'))
      FROM generate_series(1, @n::int) i))
