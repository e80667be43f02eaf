-- Purpose: receives the test notification, until the connection ends
-- Index: none
-- Locks: none that another session waits for
LISTEN oarlock_doctor
