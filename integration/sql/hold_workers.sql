SELECT worker_id FROM oarlock.workers WHERE ended_at IS NULL ORDER BY random() LIMIT 2 FOR UPDATE
