-- Makes the group roles. They belong to the whole server and cannot log in; they are granted to users that can.
DO $$
DECLARE
  migrator name := CURRENT_USER;
  wanted name;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['oarlock_owner', 'oarlock_worker', 'oarlock_submit', 'oarlock_read', 'oarlock_approve', 'oarlock_admin', 'oarlock_web']::name[] LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- a migration of another database has just made it
    END;
  END LOOP;
  BEGIN
    -- Only a member may run migrations once the owner owns the schemas.
    IF NOT pg_has_role(migrator, 'oarlock_owner', CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
      EXECUTE format('GRANT oarlock_owner TO %I', migrator);
    END IF;
    -- An administrator also reads and submits.
    IF NOT pg_has_role('oarlock_admin', 'oarlock_read', 'MEMBER') THEN
      GRANT oarlock_read TO oarlock_admin;
    END IF;
    IF NOT pg_has_role('oarlock_admin', 'oarlock_submit', 'MEMBER') THEN
      GRANT oarlock_submit TO oarlock_admin;
    END IF;
  EXCEPTION WHEN unique_violation THEN NULL;
  END;
END $$;
