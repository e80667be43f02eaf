-- Purpose: registers a version of a DAG and makes it current, with or without its schedules; the same content changes nothing
-- Index: dags_name_key, dag_versions_pkey, lanes' key
-- Locks: the DAG's row until the statement is done
SELECT p.dag_id, p.version, p.is_new
  FROM oarlock.put_dag(@spec::text::jsonb, @source, @hash, @needs, @slots, @queue_timeout, @path, @keep_schedules, @pools::text::jsonb) p
