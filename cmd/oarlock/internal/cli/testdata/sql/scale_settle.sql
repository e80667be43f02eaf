-- As autovacuum would leave it.
VACUUM ANALYZE oarlock.runs, oarlock.tasks, oarlock.log_chunks
