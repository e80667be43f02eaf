-- As a database is whose server has the group roles, and which was migrated without `oarlock migrate roles`.
REVOKE ALL ON SCHEMA oarlock FROM oarlock_submit, oarlock_worker;
