-- Purpose: undoes forbid_mail
GRANT SELECT ON oarlock.controls TO oarlock_worker;
