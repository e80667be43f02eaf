-- Purpose: fire times that the schedule's timing has and that were not decided exactly once, and fired times without exactly one run
-- Index: none
-- Locks: none
WITH RECURSIVE times AS (
    SELECT s.schedule_id, s.name, s.timing, s.decided_at AS upto, oarlock.next_time(s.timing, s.created_at) AS at FROM oarlock.schedules s
    UNION ALL
    SELECT t.schedule_id, t.name, t.timing, t.upto, oarlock.next_time(t.timing, t.at) FROM times t WHERE t.at <= t.upto
), decided AS (
    SELECT t.schedule_id, t.name, t.at, f.logical_at, f.outcome,
           (SELECT count(*) FROM oarlock.fires o WHERE o.schedule_id = t.schedule_id AND t.at BETWEEN o.logical_at AND coalesce(o.until, o.logical_at)) AS n,
           (SELECT count(*) FROM oarlock.runs r WHERE r.schedule_id = t.schedule_id AND r.logical_at = t.at) AS runs
      FROM times t
      LEFT JOIN oarlock.fires f ON f.schedule_id = t.schedule_id AND t.at BETWEEN f.logical_at AND coalesce(f.until, f.logical_at)
     WHERE t.at <= t.upto
)
SELECT format('schedule %s: %s is decided %s times (%s), and has %s runs', d.name, d.at, d.n, coalesce(d.outcome, 'never'), d.runs)
  FROM decided d WHERE d.n <> 1 OR d.runs <> CASE d.outcome WHEN 'fired' THEN 1 ELSE 0 END
UNION ALL
SELECT format('schedule %s: %s is %s, for %s times, and stands for %s', f.schedule_id, f.logical_at, f.outcome, f.count, count(d.at))
  FROM oarlock.fires f LEFT JOIN decided d ON d.schedule_id = f.schedule_id AND d.logical_at = f.logical_at
 GROUP BY f.schedule_id, f.logical_at, f.outcome, f.count HAVING count(d.at) <> f.count OR f.count IS NULL AND count(d.at) <= 1000
UNION ALL
SELECT format('schedule %s: run %s is for %s, which is no time of it', r.schedule, r.run_id, r.logical_at)
  FROM oarlock.runs r WHERE r.schedule_id IS NOT NULL AND NOT EXISTS (SELECT FROM decided d WHERE d.schedule_id = r.schedule_id AND d.at = r.logical_at)
