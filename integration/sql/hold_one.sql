SELECT run_id FROM oarlock.runs WHERE finished_at IS NULL AND ($1 = 0 OR run_id < $1) ORDER BY run_id DESC LIMIT 1 FOR UPDATE
