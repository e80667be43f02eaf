-- As autovacuum leaves it, and so that it does not come while we count.
ALTER TABLE oarlock.runs SET (autovacuum_enabled = off);
ALTER TABLE oarlock.tasks SET (autovacuum_enabled = off);
VACUUM ANALYZE oarlock.runs, oarlock.tasks, oarlock.log_chunks
