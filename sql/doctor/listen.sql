-- Purpose: receive the test notification; ends with the connection
-- Index: none
-- Locks: none that anybody else waits for
LISTEN oarlock_doctor
