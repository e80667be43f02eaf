INSERT INTO oarlock.fires (schedule_id, logical_at, outcome, reason) SELECT schedule_id, now(), 'refused', 'param n is not known' FROM oarlock.schedules
