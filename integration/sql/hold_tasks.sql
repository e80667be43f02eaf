SELECT run_id FROM oarlock.tasks WHERE finished_at IS NULL ORDER BY random() LIMIT 4 FOR UPDATE
