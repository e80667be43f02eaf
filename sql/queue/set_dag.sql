-- Purpose: pauses a DAG, resumes it, takes it out of service or back, retires versions; null leaves a setting as it is
-- Index: dags_name_key
-- Locks: the DAG's row until the statement is done
SELECT oarlock.set_dag(@name, @paused, @removed, @oldest)
