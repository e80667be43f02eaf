-- Purpose: forbids workers to read the requests to their runs
REVOKE SELECT ON oarlock.controls FROM oarlock_worker;
