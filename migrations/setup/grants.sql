-- Grants each role exactly the rights below. Runs after every migration once the roles own the schemas, and takes back the
-- rights that an older version granted. Tables and functions that do not exist yet are passed over. The README of the SQL API,
-- docs/sql-api.md, shows the public functions and views by role; nothing else is public.
GRANT USAGE ON SCHEMA oarlock TO oarlock_worker, oarlock_submit, oarlock_read, oarlock_approve, oarlock_admin;
GRANT USAGE ON SCHEMA oarlock_river TO oarlock_worker;

REVOKE ALL ON ALL TABLES IN SCHEMA oarlock FROM oarlock_worker, oarlock_submit, oarlock_read, oarlock_approve, oarlock_admin;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA oarlock FROM oarlock_worker, oarlock_submit, oarlock_read, oarlock_approve, oarlock_admin;
REVOKE ALL ON ALL ROUTINES IN SCHEMA oarlock FROM oarlock_worker, oarlock_submit, oarlock_read, oarlock_approve, oarlock_admin;
ALTER DEFAULT PRIVILEGES FOR ROLE oarlock_owner IN SCHEMA oarlock REVOKE ALL ON TABLES FROM oarlock_worker, oarlock_read;
ALTER DEFAULT PRIVILEGES FOR ROLE oarlock_owner IN SCHEMA oarlock REVOKE ALL ON SEQUENCES FROM oarlock_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE oarlock_owner IN SCHEMA oarlock REVOKE ALL ON ROUTINES FROM oarlock_worker;

-- Workers have all rights on the tables of River, which does side work for them; also on partitions that it may add later.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA oarlock_river TO oarlock_worker;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA oarlock_river TO oarlock_worker;
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA oarlock_river TO oarlock_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE oarlock_owner IN SCHEMA oarlock_river GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO oarlock_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE oarlock_owner IN SCHEMA oarlock_river GRANT USAGE, SELECT ON SEQUENCES TO oarlock_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE oarlock_owner IN SCHEMA oarlock_river GRANT EXECUTE ON ROUTINES TO oarlock_worker;

DO $$
DECLARE
  command text;
BEGIN
  FOR command IN
    SELECT format('GRANT %s ON %s TO %s', g.privileges, c.oid::regclass, g.roles)
      FROM (VALUES
        -- A worker reads everything and keeps the journal. It deletes open approvals and fences only, and never a run.
        ('SELECT', 'schema_history queues lanes dags dag_versions runs run_keys tasks approvals_open attempts controls events workers worker_offers worker_orders fences
          log_chunks followers cache agenda schedules fires pools pool_keys permits', 'oarlock_worker'),
        ('INSERT', 'tasks approvals_open attempts events workers worker_offers fences log_chunks', 'oarlock_worker'),
        ('UPDATE', 'tasks approvals_open workers fences', 'oarlock_worker'),
        -- A worker records how a run goes. It cannot change the request: the DAG, the params, the submitter and the time.
        ('UPDATE (state, reason, claim_id, worker_id, epoch, losses, inbox, wake_at, stage, ready_at, ending, ending_by, ending_text, paused_by, deadline, left_ms,
          tolerated, counts, started_at, finished_at)', 'runs', 'oarlock_worker'),
        -- A worker decides controls. Every control is made by a function, which records the user that asks.
        ('UPDATE (decided_at, outcome, state, message)', 'controls', 'oarlock_worker'),
        -- A worker only locks rows of queues and DAGs. That takes the right to update a column: each of these
        -- decides nothing.
        ('UPDATE (paused_at)', 'queues', 'oarlock_worker'),
        ('UPDATE (created_at)', 'dags', 'oarlock_worker'),
        ('DELETE', 'approvals_open fences', 'oarlock_worker'),
        -- A reader sees all tables of Oarlock, and none of River. An administrator is a reader and a submitter.
        ('SELECT', 'schema_history queues lanes dags dag_versions runs run_keys tasks approvals_open attempts controls events workers worker_offers worker_orders fences
          log_chunks followers cache agenda schedules fires pools pool_keys permits', 'oarlock_read'),
        -- A submitter has the inbox, which shows it its own runs, and the functions.
        ('SELECT, INSERT', 'inbox', 'oarlock_submit, oarlock_worker'),
        ('SELECT', 'inbox', 'oarlock_read'),
        -- Every program first checks whether it works with this version of the schema.
        ('SELECT', 'schema_history', 'oarlock_submit, oarlock_approve'),
        ('SELECT', 'error_codes', 'oarlock_submit, oarlock_read, oarlock_approve, oarlock_worker'),
        ('SELECT, UPDATE (state, claim_id, worker_id, epoch, wake_at, started_at)', 'claims', 'oarlock_worker')
      ) g (privileges, tables, roles),
      regexp_split_to_table(g.tables, '\s+') t
      JOIN pg_class c ON c.oid = to_regclass('oarlock.' || t)
    UNION ALL
    SELECT format('GRANT EXECUTE ON FUNCTION %s TO %s', p.oid::regprocedure, g.roles)
      FROM (VALUES
        ('enqueue enqueue_many rerun cancel pause resume retry mark', 'oarlock_submit, oarlock_worker'),
        ('approve reject', 'oarlock_submit, oarlock_approve, oarlock_worker'),
        -- By these an approver sees the approvals that it may decide, and its own requests. It has no runs or schedules, so
        -- lists of them are empty.
        ('control_status control_list run_status run_list task_status waiting_approvals sees_all', 'oarlock_submit, oarlock_read, oarlock_approve, oarlock_worker'),
        ('run_page run_head step_summaries schedule_list identity who', 'oarlock_submit, oarlock_read, oarlock_approve, oarlock_worker'),
        ('run_result run_events run_attempts cron_times', 'oarlock_submit, oarlock_read, oarlock_worker'),
        ('scale_hint steps_of edges_of steps_behind bodies_of replacing quiet_since may_serve watched_since taken_over_by', 'oarlock_read, oarlock_worker'),
        ('pool_list pool_permits', 'oarlock_read, oarlock_worker'),
        ('failure_history task_page task_detail item_bands journal', 'oarlock_submit, oarlock_read, oarlock_worker'),
        ('read_log follow unfollow log_steps log_attempts log_starts log_window read_chunks', 'oarlock_submit, oarlock_read, oarlock_worker'),
        ('put_dag set_dag set_queue drain_worker prune set_pool set_pool_key close_pool open_pool remove_pool', 'oarlock_admin'),
        ('put_schedule put_schedules drop_schedule pause_schedule resume_schedule trigger_schedule backfill backfill_times', 'oarlock_submit'),
        ('schedule_fires schedule_times', 'oarlock_submit, oarlock_read, oarlock_worker'),
        ('enqueue_child wake place_of make_log_days end_backends operates', 'oarlock_worker'),
        ('lanes_of room_of claim_limited claim_family pick_keyed counted_runs is_full crowded_pool', 'oarlock_worker'), -- they run with the rights of the worker
        ('wake_due expire_queued set_aside release_unreadable attend permits leave_alone', 'oarlock_worker'),
        ('is_sound', 'oarlock_worker'), -- a CHECK calls it, so each role that writes the row needs the right
        ('child_ended fail_run keep vouch', 'oarlock_worker')
      ) g (functions, roles),
      regexp_split_to_table(g.functions, '\s+') f
      JOIN pg_proc p ON p.proname = f AND p.pronamespace = 'oarlock'::regnamespace
  LOOP
    EXECUTE command;
  END LOOP;
END $$;
