-- A database on a server with the group roles, migrated without `oarlock migrate roles`.
REVOKE ALL ON SCHEMA oarlock FROM oarlock_submit, oarlock_worker;
