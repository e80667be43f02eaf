-- What each role may do. Runs after every migration once the roles own the schemas, so that new objects are covered;
-- the default privileges cover what is created in between, such as partitions.
GRANT USAGE ON SCHEMA oarlock TO oarlock_worker, oarlock_submit, oarlock_read, oarlock_admin;
GRANT USAGE ON SCHEMA oarlock_river TO oarlock_worker;

-- A worker reads and writes everything but the history of migrations.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA oarlock, oarlock_river TO oarlock_worker;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA oarlock, oarlock_river TO oarlock_worker;
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA oarlock, oarlock_river TO oarlock_worker;
REVOKE INSERT, UPDATE, DELETE ON oarlock.schema_history FROM oarlock_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE oarlock_owner IN SCHEMA oarlock, oarlock_river GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO oarlock_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE oarlock_owner IN SCHEMA oarlock, oarlock_river GRANT USAGE, SELECT ON SEQUENCES TO oarlock_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE oarlock_owner IN SCHEMA oarlock, oarlock_river GRANT EXECUTE ON ROUTINES TO oarlock_worker;

-- A reader reads what Oarlock keeps, not River's side work. An administrator is a reader and a submitter; what else
-- it may do, and all that a submitter may, is granted function by function.
GRANT SELECT ON ALL TABLES IN SCHEMA oarlock TO oarlock_read;
ALTER DEFAULT PRIVILEGES FOR ROLE oarlock_owner IN SCHEMA oarlock GRANT SELECT ON TABLES TO oarlock_read;
