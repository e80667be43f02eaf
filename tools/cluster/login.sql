-- Purpose: a login that has the role of workers, and nothing else. Its password is in a setting of the session.
DO $$
BEGIN
  EXECUTE format('CREATE ROLE cluster_worker LOGIN PASSWORD %L IN ROLE oarlock_worker', current_setting('cluster.password'));
END $$;
