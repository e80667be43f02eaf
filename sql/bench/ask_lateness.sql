-- Purpose: how late each schedule with a name that begins with $1 fired, in ms. Only benchmarks send it
-- Index: fires_pkey
-- Locks: none
SELECT extract(epoch FROM f.decided_at - f.logical_at)::float8 * 1000
  FROM oarlock.fires f JOIN oarlock.schedules s USING (schedule_id)
 WHERE s.name LIKE $1 || ' %' AND f.outcome = 'fired'
