-- Purpose: a worker may not read what is asked of its runs
REVOKE SELECT ON oarlock.controls FROM oarlock_worker;
