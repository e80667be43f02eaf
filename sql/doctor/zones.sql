-- Purpose: how far the time zones of schedules are ahead of UTC, by the data of the server: at the start of a span, and at each
--          hour of it at which the offset changes
-- Index: none: the schedules, each zone once
-- Locks: none
SELECT zone, at, ahead
  FROM (
       SELECT z.zone, h.at, extract(epoch FROM (h.at AT TIME ZONE z.zone) - (h.at AT TIME ZONE 'UTC'))::int AS ahead,
              lag(extract(epoch FROM (h.at AT TIME ZONE z.zone) - (h.at AT TIME ZONE 'UTC'))::int) OVER (PARTITION BY z.zone ORDER BY h.at) AS before
         FROM (SELECT DISTINCT (s.timing).timezone AS zone FROM oarlock.schedules s WHERE s.ended_at IS NULL ORDER BY 1 LIMIT $3) z
        CROSS JOIN generate_series($1::timestamptz, $2, interval '1 hour') h (at)) hours
 WHERE before IS DISTINCT FROM ahead
 ORDER BY zone, at
