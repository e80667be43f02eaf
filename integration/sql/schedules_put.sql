-- Purpose: so many schedules of a DAG that fire once, none of them soon
-- Index: schedules_name
-- Locks: none that other sessions wait for
SELECT count(*) FROM oarlock.put_schedules((SELECT jsonb_agg(jsonb_build_object('name', 's' || n, 'at', now() + interval '1 day')) FROM generate_series(1, $2::int) n), $1)
