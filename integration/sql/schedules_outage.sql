-- Purpose: schedules with a first time in three seconds and a last time within an outage of so many seconds; returns the first time
-- Index: schedules_name
-- Locks: none that other sessions wait for
SELECT max(p.next_at)
  FROM (VALUES ('daily', interval '1 day', false), ('minutes', '1 minute', false), ('caught up', '1 minute', true)) v (name, every, catchup),
       LATERAL oarlock.put_schedule($1, v.name || ' ' || $2::int, every => v.every, start_at => now() + interval '3 s',
                                    end_at => now() + $2 * interval '1 s', catchup => v.catchup) p
