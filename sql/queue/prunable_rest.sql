-- Purpose: how many keys, days of logs and workers are past their time, as oarlock.prune would find them
-- Index: run_keys_expire; runs_worker; of logs the catalog, and tasks_pkey and attempts_pkey of the runs that are not over
-- Locks: none
SELECT (SELECT count(*) FROM (SELECT FROM oarlock.run_keys k WHERE k.expires_at < clock_timestamp() LIMIT @most) keys),
       (SELECT count(*)
          FROM (SELECT CASE WHEN bool_and(v.logs_days > 0) IS NOT FALSE
                            THEN (clock_timestamp() AT TIME ZONE 'UTC')::date - coalesce(max(v.logs_days), 14) END AS since
                  FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
                 WHERE d.removed_at IS NULL) keep
          JOIN pg_catalog.pg_inherits i ON i.inhparent = 'oarlock.log_chunks'::regclass
          JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relname ~ '^log_chunks_[0-9]{8}$' AND to_date(right(c.relname, 8), 'YYYYMMDD') < keep.since
         WHERE to_date(right(c.relname, 8), 'YYYYMMDD') NOT IN (
               SELECT l.log_day
                 FROM (SELECT r.run_id FROM oarlock.runs r WHERE r.state IN ('running', 'waiting', 'paused')
                       UNION ALL SELECT r.run_id FROM oarlock.runs r WHERE r.state = 'queued' AND r.epoch > 0) active
                CROSS JOIN LATERAL (
                      SELECT t.log_day FROM oarlock.tasks t WHERE t.run_id = active.run_id
                      UNION ALL SELECT a.log_day FROM oarlock.attempts a WHERE a.run_id = active.run_id) l
                WHERE l.log_day IS NOT NULL)),
       (SELECT count(*) FROM oarlock.workers w
         WHERE w.state IN ('lost', 'gone') AND w.ended_at < clock_timestamp() - interval '7 days'
           AND NOT EXISTS (SELECT FROM oarlock.fences f WHERE f.worker_id = w.worker_id)
           AND NOT EXISTS (SELECT FROM oarlock.runs r WHERE r.worker_id = w.worker_id))
