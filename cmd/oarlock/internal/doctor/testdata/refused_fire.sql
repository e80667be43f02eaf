WITH attended AS (UPDATE oarlock.agenda SET at = now() + interval '1 hour' WHERE kind = 'schedule')
INSERT INTO oarlock.fires (schedule_id, logical_at, outcome, reason) SELECT schedule_id, timestamptz '2026-11-20T03:30:00Z', 'refused', 'param n is not known' FROM oarlock.schedules
UNION ALL SELECT schedule_id, '9000-01-01T00:00:00Z', 'fired', '' FROM oarlock.schedules -- a run triggered for that time
