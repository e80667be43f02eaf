-- Leaves the tables as autovacuum would.
VACUUM ANALYZE oarlock.runs, oarlock.tasks, oarlock.log_chunks
