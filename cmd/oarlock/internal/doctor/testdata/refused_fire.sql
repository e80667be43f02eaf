WITH attended AS (UPDATE oarlock.agenda SET at = now() + interval '1 hour' WHERE kind = 'schedule')
INSERT INTO oarlock.fires (schedule_id, logical_at, outcome, reason) SELECT schedule_id, '2026-11-20T03:30:00Z', 'refused', 'param n is not known' FROM oarlock.schedules
