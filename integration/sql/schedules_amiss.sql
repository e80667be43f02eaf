-- Purpose: fire times that were decided twice or never, and runs of a schedule that were unfinished at the same time although its policy forbids that
-- Index: none
-- Locks: none
WITH decided AS (
    SELECT s.schedule_id, s.name, s.decided_at AS upto, f.logical_at AS first, coalesce(f.until, f.logical_at) AS last,
           lag(coalesce(f.until, f.logical_at)) OVER (PARTITION BY s.schedule_id ORDER BY f.logical_at) AS before,
           lead(f.logical_at) OVER (PARTITION BY s.schedule_id ORDER BY f.logical_at) AS after
      FROM oarlock.schedules s JOIN oarlock.fires f USING (schedule_id)
), life AS ( -- in the order of the trail: workers write when runs ended, by clocks that delayed replies mislead
    SELECT a.run_id, r.schedule_id, r.schedule, min(a.seq) AS made, min(a.seq) FILTER (WHERE a.became IN ('succeeded', 'failed', 'canceled')) AS over
      FROM chaos.audit a JOIN oarlock.runs r USING (run_id) WHERE r.schedule_id IS NOT NULL AND a.step IS NULL GROUP BY a.run_id, r.schedule_id, r.schedule
)
SELECT format('schedule %s: %s follows %s, and is decided from it on', d.name, d.first, d.before) FROM decided d WHERE d.first <= d.before
UNION ALL
SELECT format('schedule %s: nothing was decided between %s and %s', d.name, d.before, d.first) FROM decided d WHERE d.first > d.before + interval '2 s'
UNION ALL
SELECT format('schedule %s is decided up to %s, and has nothing after %s', d.name, d.upto, d.last) FROM decided d WHERE d.after IS NULL AND d.upto >= d.last + interval '2 s'
UNION ALL
SELECT format('schedule %s: run %s was made while run %s was not over', r.schedule, r.run_id, b.run_id)
  FROM life r JOIN life b ON b.schedule_id = r.schedule_id AND b.made < r.made AND coalesce(b.over > r.made, true)
 WHERE r.schedule <> 'allow'
