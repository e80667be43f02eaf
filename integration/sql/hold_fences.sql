SELECT worker_id FROM oarlock.fences ORDER BY random() LIMIT 2 FOR UPDATE
