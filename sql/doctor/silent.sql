-- Purpose: the workers at work that give no sign of life, in the order in which their leases end: for how long each has been
--          silent, how many runs it holds, and in how long other workers take these over
-- Index: none for workers, a table of a few rows; runs_worker
-- Locks: none
SELECT w.name, extract(epoch FROM clock_timestamp() - w.beat_at)::float8 AS seconds, w.ttl_ms::float8 / 1000 AS lease,
       (SELECT count(*) FROM oarlock.runs r WHERE r.worker_id = w.worker_id) AS runs,
       extract(epoch FROM oarlock.taken_over_by(w, (SELECT oarlock.watched_since())) - clock_timestamp())::float8 AS takeover
  FROM oarlock.workers w
 WHERE oarlock.quiet_since(w) IS NOT NULL
 ORDER BY w.beat_at + w.ttl_ms * interval '1 millisecond', w.name
