-- Purpose: fire times that were decided twice or never, and runs of a schedule that were unfinished beside each other though its policy lets none be
-- Index: none
-- Locks: none
WITH decided AS (
    SELECT s.schedule_id, s.name, s.decided_at AS upto, f.logical_at AS first, coalesce(f.until, f.logical_at) AS last,
           lag(coalesce(f.until, f.logical_at)) OVER (PARTITION BY s.schedule_id ORDER BY f.logical_at) AS before,
           lead(f.logical_at) OVER (PARTITION BY s.schedule_id ORDER BY f.logical_at) AS after
      FROM oarlock.schedules s JOIN oarlock.fires f USING (schedule_id)
)
SELECT format('schedule %s: %s follows %s, and is decided from it on', d.name, d.first, d.before) FROM decided d WHERE d.first <= d.before
UNION ALL
SELECT format('schedule %s: nothing was decided between %s and %s', d.name, d.before, d.first) FROM decided d WHERE d.first > d.before + interval '2 s'
UNION ALL
SELECT format('schedule %s is decided up to %s, and has nothing after %s', d.name, d.upto, d.last) FROM decided d WHERE d.after IS NULL AND d.upto >= d.last + interval '2 s'
UNION ALL
SELECT format('schedule %s: run %s was made while run %s was not over', r.schedule, r.run_id, b.run_id)
  FROM oarlock.runs r JOIN oarlock.runs b ON b.schedule_id = r.schedule_id AND b.run_id < r.run_id AND b.finished_at > r.created_at
 WHERE r.schedule <> 'allow' AND NOT $1 -- the clock was stepped
